"""The scan as a data source of Spark, ``format("lodge")``: one task a file, Arrow record batches out of each.

Spark calls :class:`LodgeDataSource` and ``partitions`` in a process beside the driver while it plans, and
``read`` in Python workers on the executors. Everything in between is pickled, so it is options and paths and
nothing else. The options are those of :class:`engine.source.ScanSource`.

This is the only module of the engine that knows Spark.

Not guaranteed: that a DataFrame or a view that is used again sees files added since. Spark asks for the files
of a scan once and keeps the answer as long as the scan's relation; a statement that loads the path asks anew.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from engine.files import list_files, open_file
from engine.readers import read_batches
from engine.source import FORMAT, TEXT_SCHEMA, ScanSource


class LodgeDataSource(DataSource):
    """Raises: EngineError, which Spark hands on as the last line of a Python stack trace."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        ScanSource.from_options(self.options)  # refuse while the statement is analysed, not when it runs
        return TEXT_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return ScanReader(ScanSource.from_options(self.options))


class ScanReader(DataSourceReader):
    """Reads the files of one scan."""

    def __init__(self, source: ScanSource) -> None:
        self._source = source

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(path) for path in list_files(self._source)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        path = partition.value
        if path is None:  # what Spark makes of no partitions: a directory without files
            return
        with open_file(self._source, path) as file:
            yield from read_batches(file, workspace=self._source.workspace, path=path)
