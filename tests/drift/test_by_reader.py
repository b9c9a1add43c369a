"""Drift of Parquet and ORC files that Spark's own reader, the engine, or both of them read in one scan.

Spark's own reader reads only files that were not modified a moment ago, and that only their owner can change. Beside
the engine, it reads only files of at least 1 MiB. The tests give the files an older time, permissions, and more bytes
between the rows and the footer.

The files of a directory are read in two ways:

- ``Spark``: Only their owner can change the files, so Spark's own reader reads what it can. This way runs for each
  case, and proves that the reader that Lodge chooses returns the right rows and types.
- ``mixed``: Others can change each second file, so the engine reads it, and Spark's own reader the rest if it can. This
  way proves that the readers agree on the rows and types of one scan. It runs for the cases of `READERS`: added,
  missing and moved columns, wider numbers, the letter case of names, and structs. `test_in_process` proves how the
  engine reads all cases.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.readers.columnar.orc_tail import read_fields
from gateway.scans.spark_readers import FORMATS, MIN_FILE_BYTES
from tests.drift.cases import CASES, in_any_order
from tests.drift.statements import STATEMENTS_AT_ONCE, ddl, statement

pytestmark = pytest.mark.slow

SPARK, BOTH, ENGINE = {"Spark"}, {"Spark", "Lodge"}, {"Lodge"}
TIME = 1_700_000_000

DRIFTING = [
    case for case in CASES if case.format in FORMATS and case.refused is None and case.is_by_default and case.rows
]
READERS = {
    "a column is added": SPARK,
    "a column vanishes and returns": SPARK,
    "an empty file": SPARK,
    "columns change places": SPARK,
    "each of three files has its own column": SPARK,
    "int, null, int": BOTH,
    "int, then bigint": BOTH,
    "int, then double": BOTH,
    "letter case of a name": BOTH,
    "a struct gains a member, parquet": BOTH,
    "a struct gains a member, orc": ENGINE,
    "structs in a list gain a member": ENGINE,
}
"""Who reads the files of a drift, or of a case, if all files are old."""


def expected_readers(case):
    return READERS.get(f"{case.drift}, {case.format}", READERS.get(case.drift))


WAYS = [("Spark", case) for case in DRIFTING]
WAYS += [("mixed", case) for case in DRIFTING if expected_readers(case) is not None]


@pytest.fixture(scope="module")
def results(lodge, spark, tmp_path_factory):
    """Return the explanation and the rows of each way of each case, as futures.

    The explanation is None if the readers of the case are not known.
    """
    with ThreadPoolExecutor(STATEMENTS_AT_ONCE) as pool:
        sent = {}
        for way, case in WAYS:
            folder = lodge.files / tmp_path_factory.mktemp("by_reader").name
            folder.mkdir(mode=0o755)
            case.write(folder)
            for number, path in enumerate(sorted(folder.iterdir())):
                enlarge(path)
                os.utime(path, (TIME, TIME))
                path.chmod(0o644 if way == "Spark" or number % 2 == 0 else 0o664)
            text = statement(case, folder)
            explained = None
            if expected_readers(case) is not None:
                explained = pool.submit(lambda text=text: spark.sql(f"explain {text}").first()[0])
            sent[way, str(case)] = explained, pool.submit(lambda text=text: spark.sql(text).toArrow())
        yield sent


def enlarge(path):
    """Insert bytes between the rows and the footer of a file."""
    data = path.read_bytes()
    if path.suffix == ".parquet":  # the footer, its length and four letters
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    elif path.suffix == ".orc":  # metadata, the footer, the postscript with the lengths of both, and its own length
        postscript = dict(read_fields(data[-1 - data[-1] : -1]))
        footer = len(data) - 1 - data[-1] - postscript[1] - postscript.get(5, 0)
    else:
        return
    path.write_bytes(data[:footer] + bytes(MIN_FILE_BYTES) + data[footer:])


def readers(explanation):
    (line,) = (line for line in explanation.splitlines() if line.startswith("  Readers: "))
    return {reader for reader in BOTH if f"{reader} " in line}


@pytest.mark.parametrize(("way", "case"), WAYS, ids=str)
def test_rows_and_types_do_not_depend_on_the_reader(results, way, case):
    explained, result = results[way, str(case)]
    table = result.result()
    assert in_any_order(table.to_pylist()) == in_any_order(case.rows)
    assert {name: ddl(table.schema.field(name).type) for name in case.types} == {
        name: ddl(type_) for name, type_ in case.types.items()
    }
    expected = expected_readers(case)
    if way == "Spark" and expected is not None:
        assert readers(explained.result()) == expected
    if way == "mixed":
        used = readers(explained.result())
        assert "Lodge" in used
        assert used == BOTH or expected != SPARK
