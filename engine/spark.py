"""Spark's data source ``format("lodge")``, whose tasks read files and return Arrow record batches.

While Spark plans a query, it calls :class:`LodgeDataSource` and ``partitions`` in a process next to the driver. It
calls ``read`` in Python workers on the executors. Only options, paths and types are pickled and passed between these
processes.

The data source refuses scans that no gateway has signed, see :mod:`engine.scan_signature`.

The data source accepts the options of :class:`engine.scan_source.ScanSource`, of
:class:`engine.scan_options.ScanOptions` and of the reader for the format. No other module of the engine depends on
Spark.

Not guaranteed: a DataFrame or a view does not necessarily include files that were added after it was created. Spark
lists the files of a scan only once for each relation. A new statement that contains the path lists the files again.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from engine.error_report import reported_errors
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.fingerprint import ENGINE, require_engine
from engine.memory_limit import limited_memory
from engine.scan.path_filter import IS_NOT_NULL, IS_NULL, PathFilter
from engine.scan.row_filter import RowFilter
from engine.scan_signature import check_signature, is_without_gateway
from engine.scan_source import FORMAT, PLANNED, SINGLE_USE, TASK
from engine.spark_discovery import discovery_reader
from engine.spark_schema import to_scan_schema, to_spark_batch, to_spark_schema

_SPARK_TIME_ZONE = "UTC"
"""The time zone of all timestamps that Spark accepts."""

_PUSHES_FILTERS = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module that plans a read if ``spark.sql.python.filterPushdown.enabled`` is set.

If it is not set, Spark rejects a reader that accepts filters.
"""

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

_TEXT_OPERATORS: Mapping[type[datasource.Filter], str] = MappingProxyType(
    {
        datasource.StringStartsWith: "starts with",
        datasource.StringEndsWith: "ends with",
        datasource.StringContains: "contains",
    }
)

_NULL_TESTS: Mapping[type[datasource.Filter], str] = MappingProxyType(
    {datasource.IsNull: IS_NULL, datasource.IsNotNull: IS_NOT_NULL}
)


class LodgeDataSource(datasource.DataSource):
    """The data source that provides schemas and readers to Spark. All methods raise only ScanError."""

    _is_declared = True

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @reported_errors()
    def schema(self) -> StructType:
        """Return the schema of the files. Spark calls this method only if no schema is declared."""
        if ENGINE in self.options:
            require_engine(self.options[ENGINE])
            return StructType()
        _require_gateway(self.options)
        self._is_declared = False
        with limited_memory():
            return to_spark_schema(discover_schema(FileScan.from_options(self.options)))

    @reported_errors()
    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        _require_gateway(self.options)
        scan = FileScan.from_options(self.options)
        may_filter = SINGLE_USE in self.options and _PUSHES_FILTERS in sys.modules
        is_declared = self._is_declared and PLANNED not in self.options
        task = self.options.get(TASK)
        if task is not None:
            return discovery_reader(scan, self.options, task)
        kind = FilteringScanReader if may_filter else ScanReader
        return kind(scan, schema, is_declared=is_declared)


def _require_gateway(options: Mapping[str, str]) -> None:
    """Check that a gateway has planned a scan, unless there is none.

    Raises:
        UnsignedScanError: If it has not.
    """
    if is_without_gateway():
        return
    from pyspark.core.files import SparkFiles  # noqa: PLC0415 - gateways import this module, and have the client only

    check_signature(options, Path(SparkFiles.getRootDirectory()))


class ScanReader(datasource.DataSourceReader):
    """Reads the files of a scan."""

    def __init__(self, scan: FileScan, schema: StructType, *, is_declared: bool) -> None:
        self._scan = scan
        self._schema = schema
        self._is_declared = is_declared
        self._row_filters: Sequence[RowFilter] = ()
        self._path_filters: Sequence[PathFilter] = ()

    @reported_errors()
    def partitions(self) -> list[datasource.InputPartition]:
        schema = to_scan_schema(self._schema, _SPARK_TIME_ZONE)
        partitions = plan_partitions(self._scan, schema, is_declared=self._is_declared, path_filters=self._path_filters)
        return [datasource.InputPartition(files) for files in partitions]

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_scan": self._scan.without_files()}

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_loaded_modules()
        if partition.value is None:  # the directory is empty: without partitions, Spark runs one task with None
            return
        with reported_errors(), limited_memory():
            schema = to_scan_schema(self._schema, self._scan.options.time_zone)
            batches = read_partition(
                self._scan,
                partition.value,
                schema,
                is_declared=self._is_declared,
                row_filters=self._row_filters,
            )
            wanted = to_arrow_schema(self._schema, timezone=_SPARK_TIME_ZONE)
            for batch in map(to_spark_batch, batches):
                # casting a batch without columns would lose the number of rows
                yield batch if batch.schema.equals(wanted) else batch.cast(wanted)


@cache
def freeze_loaded_modules() -> None:
    """Exclude the loaded modules from this worker's garbage collection.

    A Spark worker runs the garbage collector after each task (``pyspark.daemon``). Visiting every object of the loaded
    modules takes longer than many tasks.
    """
    gc.collect()
    gc.freeze()


class FilteringScanReader(ScanReader):
    """Reads the files of a scan with the filters of the query.

    Filters on implicit columns exclude whole files. Formats with statistics use the other filters to skip rows. Other
    uses of the same scan would get the same rows, so it must have only one use (``SINGLE_USE``).
    """

    @reported_errors()
    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802 - Spark's name
        """Accept the filters, and return all of them, because Spark must evaluate them again."""
        found = (to_row_filter(one) for one in filters)
        self._row_filters = [one for one in found if one is not None]
        of_paths = (to_path_filter(one) for one in filters)
        self._path_filters = [one for one in of_paths if one is not None]
        return filters


def to_row_filter(spark_filter: datasource.Filter) -> RowFilter | None:
    """Convert a Spark filter to a filter of the rows.

    Return None if the scan does not support such a filter.
    """
    operator = _OPERATORS.get(type(spark_filter))
    column = _column(spark_filter)
    return None if operator is None or column is None else RowFilter(column, operator, _values(spark_filter))


def to_path_filter(spark_filter: datasource.Filter) -> PathFilter | None:
    """Convert a Spark filter to a filter of the files.

    Return None if the scan does not support such a filter.
    """
    kind = type(spark_filter)
    column = _column(spark_filter)
    if column is None:
        return None
    if kind in _NULL_TESTS:
        return PathFilter(column, _NULL_TESTS[kind])
    operator = _OPERATORS.get(kind) or _TEXT_OPERATORS.get(kind)
    return None if operator is None else PathFilter(column, operator, _values(spark_filter))


def _column(spark_filter: datasource.Filter) -> str | None:
    """Return the column of a filter. Return None if the filter concerns a nested field or several columns."""
    attribute: Sequence[str] = getattr(spark_filter, "attribute", ())
    return attribute[0] if len(attribute) == 1 else None


def _values(spark_filter: datasource.Filter) -> list[Any]:
    """Return the values of a filter that are not null."""
    value = spark_filter.value  # type: ignore[attr-defined]
    values = list(value) if isinstance(spark_filter, datasource.In) else [value]
    return [one for one in values if one is not None]
