"""The interface of an open columnar file. Each columnar format implements it."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from engine.readers.text_stream import ArrowFileAdapter

BATCH_ROWS = 65_536


class ColumnarFile(Protocol):
    """An open file that stores its schema separately and its rows in units.

    A unit is a row group in Parquet, a stripe in ORC and a record batch in Arrow IPC. All methods raise pyarrow's own
    errors.
    """

    kind: ClassVar[str]
    """The name of the format in error messages."""
    unit: ClassVar[str]
    """The name of a unit in error messages, such as ``row group``."""

    def __init__(self, file: ArrowFileAdapter, options: Any) -> None: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def unit_count(self) -> int: ...

    def unit_bytes(self) -> Sequence[int]:
        """Estimate the size of each unit in the file, in bytes."""
        ...

    def rows_in(self, unit: int) -> int | None:
        """Return the number of rows of a unit without reading the unit.

        Return None if the file does not store this number.
        """
        ...

    def may_match(self, units: Sequence[int], conditions: Sequence[pc.Expression]) -> Sequence[int]:
        """Return the units that may contain a row for which all conditions are true.

        The decision is based on the statistics of the units.

        Args:
            units: The numbers of the units to check.
            conditions: The conditions. Each condition refers to one column of the file, and uses the type of this
                column.
        """
        ...

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows of a unit. The batches may contain additional columns."""
        ...
