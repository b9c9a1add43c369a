"""Each statement is read once: its plan is decoded once, and its SQL text is divided into tokens at most once."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.conftest import LodgeProcess

pytestmark = pytest.mark.slow

NOTES_READS = """
import json
import sys

from gateway.backends.backend_session import BackendSession
from gateway.plans import plan_decoding
from gateway.sql import lexer
from gateway.tables.records import TableRecords
from lodge.cli import main

notes = open("reads.jsonl", "a", buffering=1)
read_token, decode_request = lexer._read_token, plan_decoding.decode_request
read_settings, read_record = BackendSession.read_settings, TableRecords.read


def note_token(sql, position, dialect):
    print(json.dumps({"text": sql, "position": position}), file=notes)
    return read_token(sql, position, dialect)


def note_request(kind, data):
    print(json.dumps({"decoded": kind.__name__}), file=notes)
    return decode_request(kind, data)


async def note_settings(backend):
    print(json.dumps({"of session": "settings"}), file=notes)
    return await read_settings(backend)


async def note_record(records, session):
    print(json.dumps({"of session": "record"}), file=notes)
    return await read_record(records, session)


lexer._read_token, plan_decoding.decode_request = note_token, note_request
BackendSession.read_settings, TableRecords.read = note_settings, note_record
sys.exit(main())
"""


class Reads:
    """What a gateway has read."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes
        self._known = len(self._lines())

    def _lines(self) -> Sequence[str]:
        return self._notes.read_text().splitlines() if self._notes.exists() else []

    def new(self) -> Sequence[dict[str, object]]:
        """Return what was read since the last call."""
        lines = self._lines()[self._known :]
        self._known += len(lines)
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def gateway(start_lodge: Callable[..., LodgeProcess], spark_server: str) -> LodgeProcess:
    lodge = start_lodge(backend=spark_server, program=["-c", NOTES_READS])
    (lodge.files / "one.csv").write_text("1,x\n")
    return lodge


def test_each_statement_is_read_once(gateway: LodgeProcess, connect: Callable[[LodgeProcess], SparkSession]) -> None:
    spark = connect(gateway)
    spark.sql("create temporary table t as select 1 as a, 'x' as b").collect()
    reads = Reads(gateway.log_file.parent / "reads.jsonl")
    for sql in (
        "select 1",
        "select * from dfs.tmp.t where b = 'x'",
        "select t.columns[0] from dfs.`one.csv` as t",
        "create temporary table t2 as select * from dfs.`one.csv` where columns[1] = 'x'",
        "insert into t select cast(columns[0] as int), columns[1] from dfs.`one.csv`",
        "explain select * from dfs.`one.csv`",
        "create temporary view v as select * from dfs.tmp.t",
        "drop table t2",
    ):
        spark.sql(sql).collect()
        found = reads.new()
        tokens = Counter((each["text"], each["position"]) for each in found if "text" in each)
        assert [each for each, times in tokens.items() if times > 1] == []
        texts = {text for text, _ in tokens}
        assert sql == "select 1" or sql in texts
        assert not any(text.strip() in sql and text != sql for text in texts), "a part of the text was read again"
        assert sql != "select 1" or not texts
        assert sql != "select 1" or not any("of session" in each for each in found)
        # A change reads the record again when it runs, because it must see what others have changed.
        is_change = sql.startswith(("create temporary table", "insert", "drop"))
        assert _repeated_reads_of_session(found) <= ({"record"} if is_change else set()), sql
        plans = [each for each in found if each.get("decoded") == "Plan"]
        assert len(plans) == 2, sql  # the client sends the statement, and then the relation that it gets as the answer


def _repeated_reads_of_session(found: Sequence[dict[str, object]]) -> set[object]:
    """Return what was read of the session more than once for one plan."""
    repeated: set[object] = set()
    known: set[object] = set()
    for each in found:
        if each.get("decoded") == "Plan":
            known = set()
        elif "of session" in each:
            repeated |= known & {each["of session"]}
            known.add(each["of session"])
    return repeated
