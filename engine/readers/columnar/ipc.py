"""The Arrow IPC format, which is also called Feather version 2.

A record batch is a unit. A stream of record batches is a single unit, because a stream has no footer that lists its
batches.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from engine.readers.columnar.format import ColumnarFormat
from engine.readers.text_stream import ArrowFileAdapter
from engine.spark_type import contains_spark_type
from engine.suffixes import SUFFIXES

_FILE_MAGIC = b"ARROW1"
_FEATHER_1_MAGIC = b"FEA1"


class IpcFile:
    """An open Arrow IPC file or stream. Reading a unit loads one record batch into memory."""

    kind: ClassVar[str] = "Arrow IPC"
    unit: ClassVar[str] = "record batch"

    def __init__(self, file: ArrowFileAdapter, options: object) -> None:
        self._file = file
        magic = file.read(len(_FILE_MAGIC))
        file.seek(0)
        if magic.startswith(_FEATHER_1_MAGIC):
            raise pa.ArrowInvalid("it has Feather version 1; write the file again with version 2")
        self._is_stream = magic != _FILE_MAGIC
        self._reader = self._open()
        self.schema: pa.Schema = self._reader.schema
        if any(contains_spark_type(type_) for type_ in self.schema.types):
            raise pa.ArrowInvalid("it has an extension type that only Lodge uses")

    @property
    def unit_count(self) -> int:
        return 1 if self._is_stream else int(self._reader.num_record_batches)

    def unit_bytes(self) -> Sequence[int]:
        position = self._file.seek(0, 2)
        return [position // max(self.unit_count, 1)] * self.unit_count

    def rows_in(self, unit: int) -> None:
        return None

    def may_match(self, units: Sequence[int], conditions: Sequence[pc.Expression]) -> Sequence[int]:
        """Return all units, because the format has no statistics."""
        return units

    def batches(self, unit: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        fields = [index for index, name in enumerate(self.schema.names) if name in columns] or [0]
        reader = self._open(ipc.IpcReadOptions(included_fields=fields))
        batches = reader if self._is_stream else [reader.get_batch(unit)]
        yield from batches

    def _open(self, options: "ipc.IpcReadOptions | None" = None) -> "ipc.RecordBatchFileReader":
        self._file.seek(0)
        source = pa.PythonFile(self._file, mode="r")
        return ipc.open_stream(source, options=options) if self._is_stream else ipc.open_file(source, options=options)


class IpcFormat(ColumnarFormat):
    """Format of Arrow IPC files and streams."""

    name: ClassVar[str] = "arrow"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    columnar_file = IpcFile
