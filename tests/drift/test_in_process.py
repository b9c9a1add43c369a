"""All cases of drift, in both orders of the files, in one process. Only these tests check the warnings."""

import pyarrow as pa
import pytest

from engine import errors
from engine.file_scan.file_scan import FileScan
from engine.file_scan.partition_reading import read_partition
from engine.file_scan.partitions import plan_partitions
from engine.file_scan.schema_discovery import discover_schema
from engine.readers.reader_errors import FormatError
from engine.scan_source import ScanSource
from engine.schema import TupleSchema
from tests.drift.cases import CASES, in_any_order

ERRORS = {**vars(errors), "FormatError": FormatError}


def read(directory, case):
    """Return the rows of all partitions of a scan."""
    source = ScanSource("dfs", str(directory), ".")
    scan = FileScan.from_options(source.to_options(reader=case.options))
    is_declared = case.declared is not None
    schema = TupleSchema(pa.field(*one) for one in case.declared.items()) if is_declared else discover_schema(scan)
    tasks = plan_partitions(scan, schema, is_declared=is_declared)
    batches = [batch for files in tasks for batch in read_partition(scan, files, schema, is_declared=is_declared)]
    return pa.Table.from_batches(batches, schema.to_arrow())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "is_reversed"),
    [
        pytest.param(case, is_reversed, id=f"{case}{'-reversed' * is_reversed}")
        for case in CASES
        for is_reversed in ([False] if case.has_order else [False, True])
    ],
)
def test_drift_gives_right_rows_or_the_expected_error(tmp_path, case, is_reversed, caplog):
    case.write(tmp_path, is_reversed=is_reversed)
    if case.refused is None:
        table = read(tmp_path, case)
        table.validate(full=True)
        assert in_any_order(table.to_pylist()) == in_any_order(case.rows)
        assert {name: table.schema.field(name).type for name in case.types} == dict(case.types)
        assert case.warning in caplog.text
        assert bool(case.warning) == bool(caplog.records)
        return
    with pytest.raises(ERRORS[case.refused.error]) as raised:
        read(tmp_path, case)
    for part in case.error_parts(is_reversed=is_reversed):
        assert part in str(raised.value)
