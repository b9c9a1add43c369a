"""Scans one path for a test in a process of its own, in which another package has brought a reader.

The input is a JSON object: the options of the scan. The output says whether a gateway would have accepted the path,
and what became of the scan.
"""

import json
import sys

from engine.scan_source import ScanSource, has_reader


def main() -> None:
    options = json.loads(sys.stdin.read())
    answer = {"is_accepted": has_reader(ScanSource.from_options(options).path)}
    answer["loaded_to_accept"] = [name for name in ("lodge_fixed_width", "pyarrow") if name in sys.modules]
    print(json.dumps(answer | scanned(options)))


def scanned(options: dict[str, str]) -> dict[str, object]:
    # Later than the module's own imports: a gateway has none of these.
    from engine.errors import EngineError
    from engine.file_scan import FileScan

    try:
        scan = FileScan.from_options(options)
        schema = scan.discover()
        parts = scan.partitions()
        batches = [batch for files in parts for batch in scan.batches(files, schema, is_declared=False)]
    except EngineError as error:
        return {"error": [type(error).__name__, str(error)]}
    return {
        "schema": {field.name: str(field.type) for field in schema},
        "parts": len(parts),
        "columns": {
            name: [one for batch in batches for one in batch.column(name).to_pylist()] for name in schema.names
        },
        "rows": sum(batch.num_rows for batch in batches),
    }


if __name__ == "__main__":
    main()
