"""The scan as a data source of Spark, ``format("lodge")``: tasks that read files, Arrow record batches out of each.

Spark calls :class:`LodgeDataSource` and ``partitions`` in a process beside the driver while it plans, and
``read`` in Python workers on the executors. Everything in between is pickled, so it is options, paths and types and
nothing else. The options are those of :class:`engine.scan_source.ScanSource`, of
:class:`engine.scan_options.ScanOptions` and of the format's reader.

This is the only module of the engine that knows Spark.

Not guaranteed: that a DataFrame or a view that is used again sees files added since. Spark asks for the files
of a scan once and keeps the answer as long as the scan's relation; a statement that loads the path asks anew.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from engine.arrow_types import inner_fields
from engine.errors import ColumnError
from engine.file_scan import FileScan
from engine.scan.row_filter import RowFilter
from engine.scan_source import FORMAT
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema

_SPARKS_ZONE = "UTC"
"""Of every timestamp that Spark takes."""

_PUSHES_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module that plans a read where ``spark.sql.python.filterPushdown.enabled`` is set. Everywhere else, Spark refuses
a reader that takes filters."""

_OPERATORS: Mapping[type[Filter], str] = MappingProxyType(
    {EqualTo: "=", In: "=", LessThan: "<", LessThanOrEqual: "<=", GreaterThan: ">", GreaterThanOrEqual: ">="}
)


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
        for field in schema:
            if not has_spark_type(field.type):
                raise NoSparkTypeError(field.name, field.type)
        found: StructType = nullable(from_arrow_schema(schema.to_arrow()))
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = FilteringScanReader if _PUSHES_FILTERS in sys.modules else ScanReader
        return kind(FileScan.from_options(self.options), schema, is_declared=self._is_declared)


class NoSparkTypeError(ColumnError):
    """A column of the files is of a type that Spark does not have."""

    def __init__(self, column: str, type_: pa.DataType) -> None:
        super().__init__(
            column, f"is {type_}, for which Spark has no type. Declare a schema, in which it is string or left out."
        )


def has_spark_type(type_: pa.DataType) -> bool:
    """Whether Spark has a type for these values, and for all that are in them."""
    if pt.is_union(type_) or pt.is_interval(type_):
        return False
    if pt.is_decimal(type_) and type_.precision > MAX_DECIMAL_DIGITS:
        return False
    return all(has_spark_type(field.type) for field in inner_fields(type_))


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
        self._row_filters: Sequence[RowFilter] = ()

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(files) for files in self._scan.parts()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_loaded_modules()
        if partition.value is None:  # what Spark makes of no partitions: a directory without files
            return
        schema = to_arrow_schema(self._schema, timezone=self._scan.options.time_zone)
        batches = self._scan.batches(
            partition.value, TupleSchema.of(schema), is_declared=self._is_declared, row_filters=self._row_filters
        )
        wanted = to_arrow_schema(self._schema, timezone=_SPARKS_ZONE)
        if schema.equals(wanted):  # also without columns, where a cast would lose the number of rows
            yield from batches
        else:
            yield from (batch.cast(wanted) for batch in batches)


@cache
def freeze_loaded_modules() -> None:
    """Takes what a worker has loaded out of its garbage collection, once.

    After each task, a worker of Spark collects all garbage (``pyspark.daemon``). Looking at every object of the modules
    that it has loaded takes longer than many a task.
    """
    gc.collect()
    gc.freeze()


class FilteringScanReader(ScanReader):
    """With the filters of the query, for formats that can leave out rows by their statistics."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Returns: All of them, because what is left out is never all that a filter leaves out."""
        found = (row_filter(one) for one in filters)
        self._row_filters = [one for one in found if one is not None]
        return filters


def row_filter(spark_filter: Filter) -> RowFilter | None:
    """A filter of Spark as one of the scan; None if it has none like it."""
    operator = _OPERATORS.get(type(spark_filter))
    if operator is None or len(spark_filter.attribute) != 1:  # type: ignore[attr-defined]
        return None
    value = spark_filter.value  # type: ignore[attr-defined]
    values = list(value) if isinstance(spark_filter, In) else [value]
    return RowFilter(spark_filter.attribute[0], operator, [one for one in values if one is not None])  # type: ignore[attr-defined]
