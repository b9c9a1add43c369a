"""The ORC format. The footer contains the schema, and a stripe is a unit.

Not guaranteed: a corrupt stripe is not always detected. ORC has no checksums, so a corrupt value may be read as a valid
value. A corrupt length can crash the process inside Arrow. In this case, a single Spark task fails.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from engine.readers.columnar.calendars import rebase_batch
from engine.readers.columnar.format import ColumnarFormat
from engine.readers.columnar.orc_tail import OrcTail
from engine.readers.columnar.orc_types import KIND, find_chars, pad_chars, with_spark_types
from engine.readers.columnar.spark_orc import mark_columns
from engine.readers.columnar.type_mapping import to_schema
from engine.readers.text_stream import ArrowFileAdapter
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema
from engine.suffixes import SUFFIXES


class OrcFile:
    """An open ORC file. Reading a unit loads one stripe into memory."""

    kind: ClassVar[str] = KIND
    unit: ClassVar[str] = "stripe"

    def __init__(self, file: ArrowFileAdapter, options: object) -> None:
        self._file = orc.ORCFile(pa.PythonFile(file, mode="r"))
        self.tail = OrcTail(self._file.reader.serialized_file_tail())
        if self.tail.has_unknown_types():
            raise pa.ArrowInvalid("it has a column of an unknown type")
        digits = self.tail.decimal_digits()
        if digits > MAX_DECIMAL_DIGITS:
            raise pa.ArrowInvalid(f"it has decimals with {digits} digits; the maximum is {MAX_DECIMAL_DIGITS}")
        schema: pa.Schema = self._file.schema
        types = self.tail.types()[1:]
        self.schema = with_spark_types(schema, types)
        self._chars = find_chars(schema, types)
        self._has_other_types = self.schema is not schema

    @property
    def unit_count(self) -> int:
        return int(self._file.nstripes)

    def unit_bytes(self) -> Sequence[int]:
        return [self._file.content_length // max(self.unit_count, 1)] * self.unit_count

    def rows_in(self, unit: int) -> int | None:
        return int(self._file.nrows) if self.unit_count == 1 else None

    def may_match(self, units: Sequence[int], conditions: Sequence[pc.Expression]) -> Sequence[int]:
        """Return all units, because pyarrow does not expose the statistics of stripes."""
        return units

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        batch = self._file.read_stripe(unit, columns=list(columns) or self.schema.names[:1])
        proleptic = batch if self.tail.is_proleptic else rebase_batch(batch)
        padded = pad_chars(proleptic, self._chars) if self._chars else proleptic
        yield to_schema(padded, self.schema) if self._has_other_types else padded


class OrcFormat(ColumnarFormat):
    """Format of ORC files."""

    name: ClassVar[str] = "orc"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    columnar_file = OrcFile

    def _schema(self, columns: OrcFile) -> TupleSchema:
        return mark_columns(super()._schema(columns), columns.tail)
