"""The scan as a data source of Spark, ``format("lodge")``: tasks that read files, Arrow record batches out of each.

Spark calls :class:`LodgeDataSource` and ``partitions`` in a process beside the driver while it plans, and
``read`` in Python workers on the executors. Everything in between is pickled, so it is options, paths and types and
nothing else. The options are those of :class:`engine.source.ScanSource`, of
:class:`engine.scan_options.ScanOptions` and of the format's reader.

This is the only module of the engine that knows Spark.

Not guaranteed: that a DataFrame or a view that is used again sees files added since. Spark asks for the files
of a scan once and keeps the answer as long as the scan's relation; a statement that loads the path asks anew.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from engine.file_scan import FileScan
from engine.schema import TupleSchema
from engine.source import FORMAT


class LodgeDataSource(DataSource):
    """Raises: EngineError, which Spark hands on as the last line of a Python stack trace."""

    _is_declared = True

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Called only if the user gives no schema."""
        schema = FileScan.from_options(self.options).discover()
        self._is_declared = False
        found: StructType = nullable(from_arrow_schema(schema.to_arrow()))
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        return ScanReader(FileScan.from_options(self.options), schema, is_declared=self._is_declared)


def nullable(type_: Any) -> Any:
    """A Spark type in which everything may be null, as in Spark's own file sources: files come and go."""
    match type_:
        case StructType():
            return StructType(
                [StructField(one.name, nullable(one.dataType), True, one.metadata) for one in type_.fields]
            )
        case ArrayType():
            return ArrayType(nullable(type_.elementType), True)
        case MapType():
            return MapType(nullable(type_.keyType), nullable(type_.valueType), True)
    return type_


class ScanReader(DataSourceReader):
    """Reads the files of one scan."""

    def __init__(self, scan: FileScan, schema: StructType, *, is_declared: bool) -> None:
        self._scan = scan
        self._schema = schema
        self._is_declared = is_declared

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(files) for files in self._scan.parts()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:  # what Spark makes of no partitions: a directory without files
            return
        schema = TupleSchema.of(to_arrow_schema(self._schema, timezone="UTC"))
        yield from self._scan.batches(partition.value, schema, is_declared=self._is_declared)
