"""What a columnar file is to the reader of all of them."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from engine.readers.stream import ArrowFileAdapter

BATCH_ROWS = 65_536


class ColumnarFile(Protocol):
    """An open file that has its schema beside its rows, and its rows in units.

    Its methods raise what pyarrow raises.
    """

    kind: ClassVar[str]
    """The format's name in messages."""
    unit: ClassVar[str]
    """What the units are called in messages: ``row group``."""

    def __init__(self, file: ArrowFileAdapter) -> None: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def unit_count(self) -> int: ...

    def unit_bytes(self) -> Sequence[int]:
        """About how many bytes of the file each unit is."""
        ...

    def rows_in(self, unit: int) -> int | None:
        """Without reading it; None if only reading tells."""
        ...

    def may_match(self, units: Sequence[int], conditions: Sequence[pc.Expression]) -> Sequence[int]:
        """Those of the units in which all conditions may be true for a row, by what the file says about them.

        Args:
            units: Numbers of units.
            conditions: Each about one column of the file, in its type.
        """
        ...

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a unit. Without columns, or with more than the given ones, if the format needs it."""
        ...
