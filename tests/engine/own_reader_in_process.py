"""A process that scans one path for a test, with the reader of another package installed.

The input is a JSON object with the options of the scan. The output says whether a gateway accepts the path, and has the
result of the scan.
"""

import json
import sys

from engine.scan_source import ScanSource, has_reader


def main() -> None:
    options = json.loads(sys.stdin.read())
    answer = {"is_accepted": has_reader(ScanSource.from_options(options).path)}
    answer["loaded_to_accept"] = [name for name in ("lodge_fixed_width", "pyarrow") if name in sys.modules]
    print(json.dumps(answer | scan_path(options)))


def scan_path(options: dict[str, str]) -> dict[str, object]:
    # Imported after the check above, because a gateway imports none of these.
    from engine.errors import EngineError
    from engine.file_scan import FileScan

    try:
        scan = FileScan.from_options(options)
        schema = scan.discover()
        partitions = scan.partitions()
        batches = [batch for files in partitions for batch in scan.batches(files, schema, is_declared=False)]
    except EngineError as error:
        return {"error": [type(error).__name__, str(error)]}
    return {
        "schema": {field.name: str(field.type) for field in schema},
        "partitions": len(partitions),
        "columns": {
            name: [one for batch in batches for one in batch.column(name).to_pylist()] for name in schema.names
        },
        "rows": sum(batch.num_rows for batch in batches),
    }


if __name__ == "__main__":
    main()
