"""Runs scans for tests in a process of its own, so that a crash, a hang or too much memory is seen from outside.

Each line of the input is a JSON object: the options of the scan, and the Arrow types of columns that are declared
or null. Each line of the output says what became of it.
"""

import json
import resource
import signal
import sys
import traceback

import pyarrow as pa

from engine.errors import EngineError
from engine.file_scan import FileScan
from engine.schema import TupleSchema

SECONDS_A_SCAN = 30
ADDRESS_SPACE_BYTES = 6 << 30


def rows_of(options: dict[str, str], declared: dict[str, str] | None) -> int:
    """Reads all parts of a scan, twice: with all columns, and only to count."""
    scan = FileScan.from_options(options)
    if declared is None:
        schema = scan.discover()
    else:
        schema = TupleSchema(pa.field(name, pa.type_for_alias(type_)) for name, type_ in declared.items())
    rows = 0
    for columns in (schema, TupleSchema()):
        rows = 0
        for files in scan.partitions():
            for batch in scan.batches(files, columns, is_declared=declared is not None):
                batch.validate(full=True)
                rows += batch.num_rows
    return rows


def outcome(request: dict[str, object]) -> dict[str, object]:
    try:
        return {"rows": rows_of(request["options"], request["declared"])}
    except EngineError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except Exception:  # noqa: BLE001 - the test fails with it
        return {"unexpected": traceback.format_exc()}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        signal.alarm(SECONDS_A_SCAN)  # ends the process
        answer = outcome(json.loads(line))
        signal.alarm(0)
        most_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(answer | {"most_bytes": most_bytes}), flush=True)


if __name__ == "__main__":
    main()
