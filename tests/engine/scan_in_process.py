"""Runs scans in a separate process, where tests can observe a crash, a hang or too much memory.

Each line of the input is a JSON object with the options of a scan, and the Arrow types of declared columns or null.
Each line of the output is the outcome of one scan.
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
from engine.schema import TupleSchema

SCAN_SECONDS = 120
ADDRESS_SPACE_BYTES = 6 << 30


def count_rows(options: dict[str, str], declared: dict[str, str] | None) -> int:
    """Read all parts of a scan twice, with all columns and without columns. Return the number of rows."""
    scan = FileScan.from_options(options)
    if declared is None:
        schema = discover_schema(scan)
    else:
        schema = TupleSchema(pa.field(name, pa.type_for_alias(type_)) for name, type_ in declared.items())
    rows = 0
    for columns in (schema, TupleSchema()):
        rows = 0
        for files in plan_partitions(scan, columns, is_declared=declared is not None):
            for batch in read_partition(scan, files, columns, is_declared=declared is not None):
                batch.validate(full=True)
                rows += batch.num_rows
    return rows


def outcome(request: dict[str, object]) -> dict[str, object]:
    try:
        return {"rows": count_rows(request["options"], request["declared"])}
    except EngineError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except Exception:  # noqa: BLE001 - the test fails with it
        return {"unexpected": traceback.format_exc()}


def peak_bytes() -> int:
    """Return the peak memory of this process. ``getrusage`` would include that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        signal.alarm(SCAN_SECONDS)  # the signal ends the process
        answer = outcome(json.loads(line))
        signal.alarm(0)
        print(json.dumps(answer | {"most_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main()
