"""The gateway asks Spark how many files conditions exclude."""

import asyncio
from dataclasses import replace

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from pyspark.sql.connect.proto import relations_pb2

from engine.error_report import ScanError
from engine.errors import EngineError
from engine.pruned_files import COUNT_PRUNED, PrunedFilesReport
from engine.scan_source import FORMAT, PLANNED, SINGLE_USE, TASK
from engine.storage.listed_file import ListedFile
from gateway.error_status import STATUS_DETAILS_KEY
from gateway.errors import BackendError
from gateway.scans.pruned_files import MAX_SCANS, count_pruned_files
from gateway.scans.scan_summary import ScanSummary
from gateway.sql.lexer import DEFAULT_DIALECT

ANSWER = PrunedFilesReport([ListedFile("a", 1000, ""), ListedFile("b", 234, "")])
IMPLICIT = '{"fields":[{"metadata":{"lodge.implicit":true},"name":"dir0"}]}'
UNKNOWN, NONE, TWO = None, "0 files (0 bytes)", "2 files (1,234 bytes)"


class FakeBackend:
    """A backend that fails with an error of its Python worker, or another condition, while it optimizes a plan."""

    def __init__(self, cause=ANSWER, condition="PYTHON_DATA_SOURCE_ERROR"):
        self.cause = cause
        self.condition = condition
        self.queries = []

    async def list_input_files(self, query):
        self.queries.append(query)
        if self.cause is None:
            return []
        text = f"[{self.condition}] Traceback (most recent call last):\nengine.error_report.ScanError: "
        text += str(ScanError(self.cause))
        info = error_details_pb2.ErrorInfo(domain="org.apache.spark", metadata={"errorClass": self.condition})
        detail = any_pb2.Any()
        detail.Pack(info)
        status = status_pb2.Status(code=grpc.StatusCode.INTERNAL.value[0], message=text, details=[detail])
        trailing = aio.Metadata((STATUS_DETAILS_KEY, status.SerializeToString()))
        raise BackendError(aio.AioRpcError(grpc.StatusCode.INTERNAL, aio.Metadata(), trailing, text), "sc://backend")


def scan_of(relation, options=(SINGLE_USE, PLANNED), schema=IMPLICIT):
    source = relation.read.data_source
    source.format, source.schema = FORMAT, schema
    source.options.update(dict.fromkeys(options, "true"))
    facts = (("Files", "3 files"), ("Readers", "Lodge"), ("Schema", "declared"))
    return ScanSummary("dfs.`x`", facts, relation, relation.read.data_source)


def read_by_spark(scan):
    """Let Spark's own reader read the files of a scan."""
    of_engine = relations_pb2.Read.DataSource()
    of_engine.CopyFrom(scan.of_engine)
    scan.relation.project.input.read.data_source.format = "parquet"
    return replace(scan, of_engine=of_engine)


def count(backend, statement, *scans):
    found = asyncio.run(count_pruned_files(statement, scans, backend, DEFAULT_DIALECT))
    return [dict(each.facts).get("Pruned") for each in found]


def of_text(text):
    """Return a statement with one scan, and its summary."""
    statement = relations_pb2.Relation()
    statement.with_relations.root.sql.query = text
    return statement, scan_of(statement.with_relations.references.add().subquery_alias.input)


def test_only_the_copy_of_a_query_has_the_task():
    backend = FakeBackend()
    statement, scan = of_text("explain /* x */ formatted select 1")
    assert count(backend, statement, scan) == [TWO]
    (query,) = backend.queries
    assert query.with_relations.root.sql.query == "select 1"
    assert query.with_relations.references[0].subquery_alias.input.read.data_source.options[TASK] == COUNT_PRUNED
    assert TASK not in scan.relation.read.data_source.options


def test_engine_counts_the_files_of_sparks_own_reader():
    backend = FakeBackend()
    statement, scan = of_text("explain select 1")
    scan = read_by_spark(scan)
    assert count(backend, statement, scan) == [f"at least {TWO}"]
    assert count(FakeBackend(cause=None), statement, scan) == [UNKNOWN]
    (query,) = backend.queries
    counted = query.with_relations.references[0].subquery_alias.input.read.data_source
    assert (counted.format, counted.options[TASK]) == (FORMAT, COUNT_PRUNED)
    assert scan.relation.project.input.read.data_source.format == "parquet"


def test_files_of_sparks_own_reader_without_a_single_use():
    """Spark pushes filters down to its own reader in this case as well."""
    statement = relations_pb2.Relation()
    statement.with_relations.root.sql.query = "select 1"
    scan = read_by_spark(scan_of(statement.with_relations.references.add(), (PLANNED,)))
    assert count(FakeBackend(), statement, scan) == [UNKNOWN]


@pytest.mark.parametrize("kind", ["show_string", "html_string", "crosstab", "cov", "corr", "freq_items", "pivot"])
def test_relations_for_which_spark_runs_jobs_are_not_copied(kind):
    backend = FakeBackend()
    statement = relations_pb2.Relation()
    if kind == "pivot":
        statement.aggregate.pivot.SetInParent()
    found = statement.aggregate if kind == "pivot" else getattr(statement, kind)
    assert count(backend, statement, scan_of(found.input)) == [UNKNOWN]
    assert backend.queries == []


def test_number_follows_the_files():
    statement, scan = of_text("select 1")
    (found,) = asyncio.run(count_pruned_files(statement, [scan], FakeBackend(), DEFAULT_DIALECT))
    assert [name for name, _ in found.facts] == ["Files", "Pruned", "Readers", "Schema"]


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        (FakeBackend(None), NONE),
        (FakeBackend(EngineError("failed")), UNKNOWN),
        (FakeBackend(condition="UNRESOLVED_COLUMN"), UNKNOWN),
    ],
)
def test_other_answers(backend, expected):
    assert count(backend, *of_text("select 1")) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "insert into t select 1",
        "explain insert into t select 1",
        "explain codegen from t insert into u select 1",
        "with a as (select 1) insert into t select * from a",
        "explain create table t as select 1",
        "explain formatted",
        "explain",
        "",
    ],
)
def test_texts_that_may_be_commands_are_not_sent(text):
    backend = FakeBackend()
    assert count(backend, *of_text(text)) == [UNKNOWN]
    assert backend.queries == []


@pytest.mark.parametrize("kind", ["catalog", "extension", "sql"])
def test_relations_that_run_commands_are_not_sent(kind):
    backend = FakeBackend()
    statement = relations_pb2.Relation()
    getattr(statement.join.left, kind).SetInParent()
    assert count(backend, statement, scan_of(statement.join.right)) == [UNKNOWN]
    assert backend.queries == []


@pytest.mark.parametrize(
    ("options", "schema", "expected", "is_asked"),
    [
        ((SINGLE_USE, PLANNED), IMPLICIT, TWO, True),
        ((SINGLE_USE, PLANNED), '{"fields":[{"name":"a"}]}', NONE, False),
        ((SINGLE_USE,), "a long", TWO, True),
        ((SINGLE_USE,), "", UNKNOWN, False),
        ((PLANNED,), IMPLICIT, NONE, False),
    ],
)
def test_spark_is_asked_only_about_scans_that_it_can_prune(options, schema, expected, is_asked):
    backend = FakeBackend()
    statement = relations_pb2.Relation()
    scan = scan_of(statement.filter.input, options, schema)
    assert count(backend, statement, scan) == [expected]
    assert len(backend.queries) == is_asked


def test_number_of_questions_is_limited():
    backend = FakeBackend()
    statement = relations_pb2.Relation()
    statement.with_relations.root.sql.query = "select 1"
    references = statement.with_relations.references
    scans = [scan_of(references.add().subquery_alias.input) for _ in range(MAX_SCANS + 1)]
    assert count(backend, statement, *scans) == [*[TWO] * MAX_SCANS, UNKNOWN]
    asked = [
        [number for number, each in enumerate(query.with_relations.references) if _has_task(each)]
        for query in backend.queries
    ]
    assert asked == [[number] for number in range(MAX_SCANS)]


def _has_task(reference):
    return TASK in reference.subquery_alias.input.read.data_source.options
