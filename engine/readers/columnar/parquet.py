"""The Parquet format. The footer contains the schema and statistics. A row group is a unit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from engine.readers.columnar.calendars import modes_of_file, rebase_batch, refuse_old_times, refuse_unknown_calendar
from engine.readers.columnar.columnar_file import BATCH_ROWS
from engine.readers.columnar.format import ColumnarFormat
from engine.readers.columnar.parquet_annotations import with_lists_for_maps
from engine.readers.columnar.parquet_int96 import with_bytes_for_int96
from engine.readers.columnar.parquet_spark_schema import KIND, SPARK_SCHEMA
from engine.readers.columnar.parquet_types import SparkTypes
from engine.readers.columnar.rebase_modes import EXCEPTION, LEGACY, RebaseModes
from engine.readers.columnar.spark_parquet import SparkColumns
from engine.readers.columnar.type_mapping import to_schema
from engine.readers.text_stream import ArrowFileAdapter
from engine.schema import TupleSchema
from engine.suffixes import SUFFIXES

_WHOLE_BYTES = 256 * 1024
_READ_AHEAD_BYTES = 64 * 1024 * 1024
_BUFFER_BYTES = 1024 * 1024
_OPTIONAL_KEYS = "Map keys must be annotated as required"
"""What Arrow says of a file that has a map with optional keys, which old versions of Hive and Impala wrote."""
_MAGIC = b"PAR1"
_END_BYTES = 8
"""The size of what follows the footer: its length and four letters."""


class ParquetFile:
    """An open Parquet file.

    A file of up to 256 KiB is fetched at once, and otherwise a row group of up to 64 MiB. A larger row group is fetched
    in parts, so that memory use is bounded.
    """

    kind: ClassVar[str] = KIND
    unit: ClassVar[str] = "row group"

    def __init__(self, file: ArrowFileAdapter, options: object) -> None:
        self._file_bytes = file.size_bytes
        self._is_whole = self._file_bytes <= _WHOLE_BYTES
        self._source = pa.BufferReader(file.read(self._file_bytes)) if self._is_whole else pa.PythonFile(file, mode="r")
        footer = self._open()
        self._metadata: Any = footer.metadata
        written: Mapping[bytes, bytes] = self._metadata.metadata or {}
        schema: pa.Schema = footer.schema_arrow
        self._types = self._find_types(schema, written.get(SPARK_SCHEMA))
        self.schema = self._types.apply(schema)
        self._has_other_types = self.schema is not schema
        modes = options if isinstance(options, RebaseModes) else RebaseModes()
        self.modes = modes_of_file(written, modes)
        self._calendar = _Calendar.of(self._types, self.modes)
        self._opened = footer

    @cached_property
    def _file(self) -> Any:
        """The file for the values of columns without times of 96 bits."""
        return self._opened if self._is_whole else self._open_values(self._metadata)

    @cached_property
    def _file_of_int96(self) -> Any:
        """The file for the values of all columns. Times of 96 bits are bytes."""
        return self._open_values(_decode_with_bytes(self._footer_of_metadata()))

    def _open_values(self, metadata: Any) -> Any:
        is_small = max(self.unit_bytes(), default=0) <= _READ_AHEAD_BYTES
        return parquet.ParquetFile(
            self._source,
            metadata=metadata,
            pre_buffer=is_small and not self._is_whole,
            buffer_size=0 if is_small else _BUFFER_BYTES,
            coerce_int96_timestamp_unit="us",
        )

    def _footer_of_metadata(self) -> bytes:
        footer = self.footer()
        return with_lists_for_maps(footer) if self._has_optional_keys else footer

    def _open(self) -> Any:
        """Return the file as Arrow reads it."""
        self._has_optional_keys = False
        try:
            return parquet.ParquetFile(self._source, coerce_int96_timestamp_unit="us")
        except pa.ArrowInvalid as error:
            if _OPTIONAL_KEYS not in str(error):
                raise
        self._has_optional_keys = True
        self._source.seek(self._file_bytes - _END_BYTES)
        footer = self._read_footer(int.from_bytes(self._source.read(4), "little"))
        metadata = _decode(with_lists_for_maps(footer))
        return parquet.ParquetFile(self._source, metadata=metadata, coerce_int96_timestamp_unit="us")

    def _find_types(self, schema: pa.Schema, spark_schema: bytes | None) -> SparkTypes:
        if self._has_optional_keys:
            return SparkTypes(schema, self._metadata.schema, spark_schema, self.footer, has_lists_for_maps=True)
        return SparkTypes.of(schema, self._metadata.schema, spark_schema, self.footer)

    @property
    def metadata(self) -> Any:
        """The decoded footer, a ``pyarrow.parquet.FileMetaData``."""
        return self._metadata

    def footer(self) -> bytes:
        """Read the footer as it is in the file."""
        return self._read_footer(self._metadata.serialized_size)

    def _read_footer(self, size: int) -> bytes:
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
        if self._calendar is not None or self._has_optional_keys:
            return units  # the statistics are of another calendar, or Arrow does not read them
        from pyarrow import dataset  # noqa: PLC0415 - imports pandas, which is not needed otherwise

        fragment = dataset.ParquetFileFormat().make_fragment(self._source, row_groups=list(units))
        for condition in conditions:
            fragment = fragment.subset(filter=condition, schema=self.schema)
        return [group.id for group in fragment.row_groups]

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        file = self._file if self._types.int96_columns.isdisjoint(columns) else self._file_of_int96
        rows = 0
        for batch in file.iter_batches(
            BATCH_ROWS, row_groups=[unit], columns=list(columns), use_threads=not self._is_whole
        ):
            rows += batch.num_rows
            converted = to_schema(batch, self.schema) if self._has_other_types else batch
            yield converted if self._calendar is None else self._calendar.to_proleptic(converted)
        if rows != self.rows_in(unit):  # Arrow ends a row group without an error where it finds no further page
            raise pa.ArrowInvalid(f"its columns have {rows} rows, but its footer says {self.rows_in(unit)}")


def _decode(footer: bytes) -> Any:
    """Return a decoded footer, a ``pyarrow.parquet.FileMetaData``."""
    end = len(footer).to_bytes(4, "little") + _MAGIC
    return parquet.read_metadata(pa.BufferReader(_MAGIC + footer + end))


@lru_cache(maxsize=2)
def _decode_with_bytes(footer: bytes) -> Any:
    """Return a decoded footer in which times of 96 bits are bytes. A worker reads several parts of a file."""
    return _decode(with_bytes_for_int96(footer))


@dataclass(frozen=True, slots=True)
class _Calendar:
    """The dates and times of a file that are, or could be, of the Julian calendar.

    Attributes:
        modes: How they are read.
        datetimes: The columns with dates, and with times that have not 96 bits.
        int96: The columns with times of 96 bits.
    """

    modes: RebaseModes
    datetimes: frozenset[str]
    int96: frozenset[str]

    @classmethod
    def of(cls, types: SparkTypes, modes: RebaseModes) -> Self | None:
        """Return the dates and times of a file. None if none can be of the Julian calendar."""
        return None if modes == RebaseModes() else cls(modes, types.other_columns, types.int96_columns)

    def to_proleptic(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the dates of a batch, and check the times.

        Raises:
            ArrowInvalid: If there are times that cannot be converted, or values whose calendar is unknown.
        """
        for mode, columns, setting in (
            (self.modes.datetime, self.datetimes, "spark.sql.parquet.datetimeRebaseModeInRead"),
            (self.modes.int96, self.int96, "spark.sql.parquet.int96RebaseModeInRead"),
        ):
            for name in columns.intersection(batch.schema.names):
                if mode == LEGACY:
                    refuse_old_times(batch.column(name))
                elif mode == EXCEPTION:
                    refuse_unknown_calendar(batch.column(name), setting)
        return rebase_batch(batch) if self.modes.datetime == LEGACY else batch


class ParquetFormat(ColumnarFormat):
    """Format of Parquet files."""

    name: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    columnar_file = ParquetFile

    def __init__(self) -> None:
        self._last: SparkColumns | None = None

    def _schema(self, columns: ParquetFile) -> TupleSchema:
        found = self._last
        if found is None or not found.are_of(columns.schema, columns.metadata, columns.modes):
            schema = super()._schema(columns)
            found = self._last = SparkColumns(schema, columns.schema, columns.metadata, columns.modes)
        return found.marked(columns.metadata.num_row_groups, columns.footer())
