"""The Parquet format. The footer contains the schema and statistics. A row group is a unit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from engine.readers.columnar.calendars import has_legacy_dates, has_legacy_int96, rebase_batch, refuse_old_times
from engine.readers.columnar.columnar_file import BATCH_ROWS
from engine.readers.columnar.format import ColumnarFormat
from engine.readers.columnar.parquet_spark_schema import KIND
from engine.readers.columnar.parquet_types import INT96, SparkTypes
from engine.readers.columnar.spark_parquet import SparkColumns
from engine.readers.columnar.type_mapping import to_schema
from engine.readers.text_stream import ArrowFileAdapter
from engine.schema import TupleSchema
from engine.suffixes import SUFFIXES

_WHOLE_BYTES = 256 * 1024
_READ_AHEAD_BYTES = 64 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_END_BYTES = 8
"""The size of what follows the footer: its length and four letters."""


class ParquetFile:
    """An open Parquet file.

    A file of up to 256 KiB is fetched at once, and otherwise a row group of up to 64 MiB. A larger row group is fetched
    in parts, so that memory use is bounded.
    """

    kind: ClassVar[str] = KIND
    unit: ClassVar[str] = "row group"

    def __init__(self, file: ArrowFileAdapter) -> None:
        self._file_bytes = file.size_bytes
        self._is_whole = self._file_bytes <= _WHOLE_BYTES
        self._source = pa.BufferReader(file.read(self._file_bytes)) if self._is_whole else pa.PythonFile(file, mode="r")
        footer = parquet.ParquetFile(self._source, coerce_int96_timestamp_unit="us")
        self._metadata: Any = footer.metadata
        schema: pa.Schema = footer.schema_arrow
        types = SparkTypes.of(schema, self._metadata, self.footer)
        self.schema = types.apply(schema)
        self._has_other_types = self.schema is not schema
        self._legacy = _LegacyFile.of(self._metadata)
        if self._is_whole:
            self._file = footer
            return
        is_small = max(self.unit_bytes(), default=0) <= _READ_AHEAD_BYTES
        self._file = parquet.ParquetFile(
            self._source,
            metadata=self._metadata,
            pre_buffer=is_small,
            buffer_size=0 if is_small else _BUFFER_BYTES,
            coerce_int96_timestamp_unit="us",
        )

    @property
    def metadata(self) -> Any:
        """The decoded footer, a ``pyarrow.parquet.FileMetaData``."""
        return self._metadata

    def footer(self) -> bytes:
        """Read the footer as it is in the file."""
        size = self._metadata.serialized_size
        self._source.seek(max(self._file_bytes - _END_BYTES - size, 0))
        return bytes(self._source.read(size))

    @property
    def unit_count(self) -> int:
        return int(self._metadata.num_row_groups)

    def unit_bytes(self) -> Sequence[int]:
        """Estimate the sizes from the uncompressed sizes of the row groups."""
        # The column sizes are not used, because pyarrow terminates the process if the column statistics are corrupt.
        sizes = [max(self._metadata.row_group(unit).total_byte_size, 0) for unit in range(self.unit_count)]
        return [self._file_bytes * size // max(sum(sizes), 1) for size in sizes]

    def rows_in(self, unit: int) -> int:
        return int(self._metadata.row_group(unit).num_rows)

    def may_match(self, units: Sequence[int], conditions: Sequence[pc.Expression]) -> Sequence[int]:
        if self._legacy is not None:
            return units  # the statistics are of the legacy calendar
        from pyarrow import dataset  # noqa: PLC0415 - imports pandas, which is not needed otherwise

        fragment = dataset.ParquetFileFormat().make_fragment(self._source, row_groups=list(units))
        for condition in conditions:
            fragment = fragment.subset(filter=condition, schema=self.schema)
        return [group.id for group in fragment.row_groups]

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._file.iter_batches(
            BATCH_ROWS, row_groups=[unit], columns=list(columns), use_threads=not self._is_whole
        ):
            proleptic = batch if self._legacy is None else self._legacy.to_proleptic(batch)
            yield to_schema(proleptic, self.schema) if self._has_other_types else proleptic


@dataclass(frozen=True, slots=True)
class _LegacyFile:
    """A file with dates or times of the Julian calendar.

    Attributes:
        has_dates: Whether its dates are of the Julian calendar.
        times: The columns whose times are of the Julian calendar, if they contain times.
    """

    has_dates: bool
    times: frozenset[str]

    @classmethod
    def of(cls, metadata: Any) -> Self | None:
        """Return the file with a decoded footer. None if it has no such dates or times."""
        written = metadata.metadata or {}
        has_dates, has_int96 = has_legacy_dates(written), has_legacy_int96(written)
        if not has_dates and not has_int96:
            return None
        leaves = (metadata.schema.column(number) for number in range(len(metadata.schema)))
        is_legacy = {True: has_int96, False: has_dates}
        times = (leaf.path.partition(".")[0] for leaf in leaves if is_legacy[leaf.physical_type == INT96])
        return cls(has_dates, frozenset(times))

    def to_proleptic(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the dates of a batch, and check the times.

        Raises:
            ArrowInvalid: If there are times that cannot be converted.
        """
        for name in self.times.intersection(batch.schema.names):
            refuse_old_times(batch.column(name))
        return rebase_batch(batch) if self.has_dates else batch


class ParquetFormat(ColumnarFormat):
    """Format of Parquet files."""

    name: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    columnar_file = ParquetFile

    def __init__(self) -> None:
        self._last: SparkColumns | None = None

    def _schema(self, columns: ParquetFile) -> TupleSchema:
        found = self._last
        if found is None or not found.are_of(columns.schema, columns.metadata):
            found = self._last = SparkColumns(super()._schema(columns), columns.schema, columns.metadata)
        return found.marked(columns.metadata.num_row_groups, columns.footer())
