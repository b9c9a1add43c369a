"""Reads files with the engine in a separate process, where a test can observe a crash, a hang or too much memory.

Each line of the input is a path. Each line of the output is a JSON object with the columns of the file,
or with an error.
"""

import json
import resource
import signal
import sys
import traceback
from pathlib import Path

import pyarrow as pa

from engine.errors import EngineError
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.memory_limit import limited_memory
from engine.scan_source import ScanSource
from engine.spark_schema import to_spark_batch, to_spark_schema
from tests.engine.scan_in_process import ADDRESS_SPACE_BYTES, SCAN_SECONDS, peak_bytes
from tests.foreign_files.plain_columns import PlainColumn, plain_columns


def read_columns(path: Path) -> dict[str, PlainColumn]:
    """Read a file as a task of Spark does."""
    scan = FileScan.from_options(ScanSource("dfs", str(path.parent), path.name).to_options(reader={}))
    with limited_memory():
        schema = discover_schema(scan)
        types = {one.name: one.dataType.simpleString() for one in to_spark_schema(schema).fields}
        batches = []
        for files in plan_partitions(scan):
            for batch in read_partition(scan, files, schema, is_declared=False):
                batch.validate(full=True)
                batches.append(to_spark_batch(batch))
    if not batches:
        return {name: PlainColumn(type_, ()) for name, type_ in types.items()}
    return plain_columns(pa.Table.from_batches(batches), types)


def answer(path: Path) -> dict[str, object]:
    try:
        return {"columns": {name: (one.type, one.values) for name, one in read_columns(path).items()}}
    except EngineError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception:  # noqa: BLE001 - a finding
        return {"unexpected": traceback.format_exc()}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        signal.alarm(SCAN_SECONDS)  # the signal ends the process
        found = answer(Path(json.loads(line)))
        signal.alarm(0)
        print(json.dumps(found | {"most_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main()
