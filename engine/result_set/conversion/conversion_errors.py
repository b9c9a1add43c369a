"""Internal errors of a conversion.

The caller converts these errors to engine errors and adds the position in the file.
"""

import pyarrow as pa


class NoConversionError(Exception):
    """Raised if there is no conversion between two types.

    Attributes:
        column: The path of the column.
        offered: The type of the values.
        promised: The type to convert the values to.
    """

    def __init__(self, column: str, offered: pa.DataType, promised: pa.DataType) -> None:
        super().__init__(column)
        self.column = column
        self.offered = offered
        self.promised = promised


class RefusedError(Exception):
    """Raised if a value cannot be converted.

    Attributes:
        index: The index of the value. For nested values, this is the index in the outermost array.
        column: The path of the column.
        value: The value.
        wanted: The values that the column accepts.
    """

    def __init__(self, index: int, column: str, value: object, wanted: object) -> None:
        super().__init__(column)
        self.index = index
        self.column = column
        self.value = value
        self.wanted = wanted
