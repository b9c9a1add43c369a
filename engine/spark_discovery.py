"""The discovery of a scan as a Spark job.

A gateway that knows the files of a scan asks for their schemas with the option ``task``. Spark then runs discovery on
its executors, so that no values pass through the driver.

| task | options | result |
| --- | --- | --- |
| ``discover`` | ``files`` | the findings in these files (:mod:`engine.discovery`) |
| ``locate`` | ``files``, ``conflict_column``, ``conflict_others`` | the position of the conflict in the file |
"""

import base64
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource

from engine.discovery import decode_schema, examine, write_findings
from engine.error_report import reported_errors
from engine.errors import ScanOptionError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partitions import discovery_groups
from engine.file_scan.schema_conflict import find_place
from engine.file_scan.schema_discovery import examine_file
from engine.memory_limit import limited_memory

DISCOVER = "discover"
LOCATE = "locate"
COLUMN = "conflict_column"
OTHERS = "conflict_others"


class DiscoveryReader(datasource.DataSourceReader):
    """Examines the files of a scan, in groups."""

    def __init__(self, scan: FileScan) -> None:
        self._scan = scan

    @reported_errors()
    def partitions(self) -> list[datasource.InputPartition]:
        return [datasource.InputPartition(group) for group in discovery_groups(self._scan)]

    def __getstate__(self) -> Mapping[str, Any]:
        return {**self.__dict__, "_scan": self._scan.without_files()}

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        with reported_errors(), limited_memory():
            numbers = [number for number, _ in partition.value]
            with self._scan.opened_ahead([self._scan.open_later(file) for _, file in partition.value]) as files:
                yield examine(zip(numbers, files, strict=True), partial(examine_file, self._scan))


class LocationReader(datasource.DataSourceReader):
    """Finds the position in a file at which a column conflicts with other files."""

    def __init__(self, scan: FileScan, column: str, others: bytes) -> None:
        self._scan = scan
        self._column = column
        self._others = others

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        with reported_errors(), limited_memory():
            (file,) = self._scan.listed or ()
            position = find_place(self._scan, file, self._column, decode_schema(self._others))
            yield write_findings(([0], None, position))


def discovery_reader(scan: FileScan, options: Mapping[str, str], task: str) -> datasource.DataSourceReader:
    """Return the reader for a task.

    Args:
        scan: The scan, with its list of files.
        options: The options of the data source.
        task: The task.

    Raises:
        ScanOptionError: If there is no such task.
    """
    if task == DISCOVER:
        return DiscoveryReader(scan)
    if task == LOCATE:
        return LocationReader(scan, options[COLUMN], base64.b64decode(options[OTHERS]))
    raise ScanOptionError("task", f"cannot be {task!r}")
