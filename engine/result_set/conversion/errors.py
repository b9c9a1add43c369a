"""How a conversion says inside what it cannot do, until the place is known in which the values stand."""

import pyarrow as pa


class NotOfferedError(Exception):
    """There is no conversion between two types."""

    def __init__(self, column: str, offered: pa.DataType, promised: pa.DataType) -> None:
        super().__init__(column)
        self.column = column
        self.offered = offered
        self.promised = promised


class RefusedError(Exception):
    """One value cannot be converted.

    Attributes:
        index: In the array; whoever converts what holds this array says it as an index of its own.
    """

    def __init__(self, index: int, column: str, value: object, wanted: object) -> None:
        super().__init__(column)
        self.index = index
        self.column = column
        self.value = value
        self.wanted = wanted
