"""Internal errors of a conversion.

The caller that knows the place in the file turns them into engine errors.
"""

import pyarrow as pa


class NoConversionError(Exception):
    """No conversion exists between two types.

    Attributes:
        column: The path of the column.
        offered: The type of the values.
        promised: The type that they should become.
    """

    def __init__(self, column: str, offered: pa.DataType, promised: pa.DataType) -> None:
        super().__init__(column)
        self.column = column
        self.offered = offered
        self.promised = promised


class RefusedError(Exception):
    """One value cannot be converted.

    Attributes:
        index: The index of the value. Each enclosing list replaces it by the index of its own value.
        column: The path of the column.
        value: The value.
        wanted: What the column takes.
    """

    def __init__(self, index: int, column: str, value: object, wanted: object) -> None:
        super().__init__(column)
        self.index = index
        self.column = column
        self.value = value
        self.wanted = wanted
