"""The data source ``format("lodge")`` of Spark: tasks that read files and return Arrow record batches.

Spark calls :class:`LodgeDataSource` and ``partitions`` in a process next to the driver while it plans, and ``read`` in
Python workers on the executors. Everything between them is pickled: options, paths and types only.

The options are those of :class:`engine.scan_source.ScanSource`, of :class:`engine.scan_options.ScanOptions` and of the
format's reader. No other module of the engine depends on Spark.

Not guaranteed: that a DataFrame or a view that is used again sees files that were added since. Spark lists the files of
a scan once for each relation. A statement that names the path lists them again.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import datasource
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from engine.arrow_types import inner_fields
from engine.error_report import reported_errors
from engine.errors import ColumnError
from engine.file_scan import FileScan
from engine.scan.row_filter import RowFilter
from engine.scan_source import FORMAT
from engine.schema import MAX_DECIMAL_DIGITS, TupleSchema

_SPARK_TIME_ZONE = "UTC"
"""The time zone of all timestamps that Spark accepts."""

_PUSHES_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module that plans a read if ``spark.sql.python.filterPushdown.enabled`` is set. If it is not, Spark rejects a
reader that accepts filters."""

_OPERATORS: Mapping[type[datasource.Filter], str] = MappingProxyType(
    {
        datasource.EqualTo: "=",
        datasource.In: "=",
        datasource.LessThan: "<",
        datasource.LessThanOrEqual: "<=",
        datasource.GreaterThan: ">",
        datasource.GreaterThanOrEqual: ">=",
    }
)


class LodgeDataSource(datasource.DataSource):
    """The data source that Spark asks for schemas and readers. Every method raises only ScanError."""

    _is_declared = True

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @reported_errors()
    def schema(self) -> StructType:
        """Return the schema of the files. Spark calls this only if the user declares none."""
        schema = FileScan.from_options(self.options).discover()
        self._is_declared = False
        for field in schema:
            if not has_spark_type(field.type):
                raise NoSparkTypeError(field.name, field.type)
        found: StructType = make_nullable(from_arrow_schema(schema.to_arrow()))
        return found

    @reported_errors()
    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        kind = FilteringScanReader if _PUSHES_FILTERS in sys.modules else ScanReader
        return kind(FileScan.from_options(self.options), schema, is_declared=self._is_declared)


class NoSparkTypeError(ColumnError):
    """A column whose type Spark does not have."""

    condition = "LODGE_TYPE_NOT_SUPPORTED"
    sql_state = "0A000"

    def __init__(self, column: str, type_: pa.DataType) -> None:
        super().__init__(
            column,
            f"is {type_}, for which Spark has no type. Declare a schema in which the column is string or missing.",
            parameters={"foundType": type_},
        )


def has_spark_type(type_: pa.DataType) -> bool:
    """Return whether Spark has a type for these values and for all nested values."""
    if pt.is_union(type_) or pt.is_interval(type_):
        return False
    if pt.is_decimal(type_) and type_.precision > MAX_DECIMAL_DIGITS:
        return False
    return all(has_spark_type(field.type) for field in inner_fields(type_))


def make_nullable(type_: Any) -> Any:
    """Return a Spark type with everything nullable, as in Spark's own file sources."""
    match type_:
        case StructType():
            return StructType(
                [StructField(one.name, make_nullable(one.dataType), True, one.metadata) for one in type_.fields]
            )
        case ArrayType():
            return ArrayType(make_nullable(type_.elementType), True)
        case MapType():
            return MapType(make_nullable(type_.keyType), make_nullable(type_.valueType), True)
    return type_


class ScanReader(datasource.DataSourceReader):
    """Reads the files of one scan."""

    def __init__(self, scan: FileScan, schema: StructType, *, is_declared: bool) -> None:
        self._scan = scan
        self._schema = schema
        self._is_declared = is_declared
        self._row_filters: Sequence[RowFilter] = ()

    @reported_errors()
    def partitions(self) -> list[datasource.InputPartition]:
        return [datasource.InputPartition(files) for files in self._scan.partitions()]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_loaded_modules()
        if partition.value is None:  # Spark runs one task without a partition if there are none: the directory is empty
            return
        with reported_errors():
            schema = to_arrow_schema(self._schema, timezone=self._scan.options.time_zone)
            batches = self._scan.batches(
                partition.value, TupleSchema.of(schema), is_declared=self._is_declared, row_filters=self._row_filters
            )
            wanted = to_arrow_schema(self._schema, timezone=_SPARK_TIME_ZONE)
            if schema.equals(wanted):  # a cast of a batch without columns would lose the number of rows
                yield from batches
            else:
                yield from (batch.cast(wanted) for batch in batches)


@cache
def freeze_loaded_modules() -> None:
    """Exclude the loaded modules from this worker's garbage collection.

    A worker of Spark collects garbage after each task (``pyspark.daemon``). To visit every object of the loaded modules
    takes longer than many tasks.
    """
    gc.collect()
    gc.freeze()


class FilteringScanReader(ScanReader):
    """Reads the files of one scan with the filters of the query, for formats that skip rows by their statistics."""

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802 - Spark's name
        """Accept the filters, and return all of them, because Spark must apply them again to the rows."""
        found = (to_row_filter(one) for one in filters)
        self._row_filters = [one for one in found if one is not None]
        return filters


def to_row_filter(spark_filter: datasource.Filter) -> RowFilter | None:
    """Convert a filter of Spark to a filter of the scan; return None if the scan has no such filter."""
    operator = _OPERATORS.get(type(spark_filter))
    if operator is None or len(spark_filter.attribute) != 1:  # type: ignore[attr-defined]
        return None
    value = spark_filter.value  # type: ignore[attr-defined]
    values = list(value) if isinstance(spark_filter, datasource.In) else [value]
    return RowFilter(spark_filter.attribute[0], operator, [one for one in values if one is not None])  # type: ignore[attr-defined]
