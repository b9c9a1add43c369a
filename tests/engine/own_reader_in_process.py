"""A process that scans paths for tests, with the reader of another package installed.

Each line of the input is a JSON object with the options of a scan, and has a line of the output with its result. The
argument ``accept`` reads no files: the output says whether a gateway accepts the path, and what it has imported.
"""

import json
import sys

from engine.scan_source import ScanSource, has_reader


def main() -> None:
    answer = accept_path if "accept" in sys.argv else scan_path
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def accept_path(options: dict[str, str]) -> dict[str, object]:
    is_accepted = has_reader(ScanSource.from_options(options).path)
    loaded = [name for name in ("lodge_fixed_width", "pyarrow") if name in sys.modules]
    return {"is_accepted": is_accepted, "loaded": loaded}


def scan_path(options: dict[str, str]) -> dict[str, object]:
    # Imported here, because a gateway imports none of these.
    from engine.errors import EngineError
    from engine.file_scan.file_scan import FileScan
    from engine.file_scan.partition_reading import read_partition
    from engine.file_scan.partitions import plan_partitions
    from engine.file_scan.schema_discovery import discover_schema

    try:
        scan = FileScan.from_options(options)
        schema = discover_schema(scan)
        partitions = plan_partitions(scan)
        batches = [batch for files in partitions for batch in read_partition(scan, files, schema, is_declared=False)]
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
