"""The interface of an open columnar file, which each format implements."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from engine.readers.stream import ArrowFileAdapter

BATCH_ROWS = 65_536


class ColumnarFile(Protocol):
    """An open file that stores its schema apart from its rows, and its rows in units.

    A unit is a row group, a stripe or a record batch. All methods raise pyarrow's own errors.
    """

    kind: ClassVar[str]
    """The format's name in messages."""
    unit: ClassVar[str]
    """The name of a unit in messages, such as ``row group``."""

    def __init__(self, file: ArrowFileAdapter) -> None: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def unit_count(self) -> int: ...

    def unit_bytes(self) -> Sequence[int]:
        """Estimate how many bytes of the file each unit takes."""
        ...

    def rows_in(self, unit: int) -> int | None:
        """Return the number of rows of a unit without reading it; None if the file does not store it."""
        ...

    def may_match(self, units: Sequence[int], conditions: Sequence[pc.Expression]) -> Sequence[int]:
        """Return the units that may have a row for which all conditions are true, by their statistics.

        Args:
            units: The numbers of the units to consider.
            conditions: The conditions, each about one column of the file, in the type of that column.
        """
        ...

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of a unit. The batches may have more columns than the given ones."""
        ...
