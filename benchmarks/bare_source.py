"""A data source of Spark that consists of pyarrow's readers only.

It shows the cost of a Python data source without support for drift, limits and precise errors. Each task reads one
whole file. The source is pickled by value, so Spark's workers need no installation.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, json, parquet
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


class BareSource(DataSource):
    """The data source.

    It has the options ``directory`` and ``format``, and needs a declared schema.
    """

    @classmethod
    def name(cls) -> str:
        return "bare"

    def reader(self, schema: StructType) -> DataSourceReader:
        return BareReader(Path(self.options["directory"]), self.options["format"], schema)


class BareReader(DataSourceReader):
    def __init__(self, directory: Path, format_: str, schema: StructType) -> None:
        self._directory = directory
        self._format = format_
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(self._directory.iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        yield from READ[self._format](partition.value, schema).select(schema.names).to_batches()


def read_csv(path: str, schema: pa.Schema) -> pa.Table:
    types = dict(zip(schema.names, schema.types, strict=True))
    options = csv.ConvertOptions(column_types=types, include_columns=schema.names)
    return csv.read_csv(path, convert_options=options)


def read_json(path: str, schema: pa.Schema) -> pa.Table:
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return json.read_json(path, parse_options=options)


def read_parquet(path: str, schema: pa.Schema) -> pa.Table:
    return parquet.read_table(path, columns=schema.names)


READ: Mapping[str, Callable[[str, pa.Schema], pa.Table]] = {
    "csv": read_csv,
    "json": read_json,
    "parquet": read_parquet,
}
