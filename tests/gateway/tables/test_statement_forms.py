"""The forms in which clients send a statement: as a SQL command, in its older field, or as the root of a plan.

Each Lodge statement has the same effect in each form, and the same rows in the format in which Spark answers the form.
"""

import uuid
from collections.abc import Callable, Sequence

import grpc
import pyarrow as pa
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc, relations_pb2
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.pandas.types import from_arrow_schema

from tests.gateway.killed_gateways import kill
from tests.running.tiers import quick_first

Plan = base_pb2.Plan

STATEMENTS = (
    "create temporary table t as select 1 a, 'x' b",
    "create temporary table if not exists t as select 2 a",
    "create temporary table u (a int, b string) using parquet",
    "create temporary table w like t",
    "insert into t values (2, 'y')",
    "with q as (select 3 a, 'z' b) insert into u select * from q",
    "insert overwrite u select * from t",
    "show create table t",
    "show temporary tables",
    "show tables in dfs.tmp like 'u*'",
    "show sessions",
    "select * from u order by a",
    "explain select * from dfs.`f.csv`",
    "declare or replace variable query string default 'select a, ? c from u order by a'",
    "execute immediate concat(query, ' desc') using 7",
    "create or replace temporary view v as select * from t",
    "select * from v order by a",
    "drop view if exists dfs.tmp.t",
    "update u set b = 'new' where a = 1",
    "merge into u using t on u.a = t.a when matched then update set * when not matched then insert *",
    "delete from dfs.tmp.u where a = 2",
    "insert into u (b) values (default)",
    "select * from u order by a",
    "truncate table t",
    "select count(*) from t",
    "create table dfs.permanent as select 1 a",
    "drop table dfs.permanent",
    "drop table t",
    "drop table if exists t",
    "drop table u",
)
REFUSED = (
    "create temporary table",
    "insert into dfs.tmp.absent values (1)",
    "drop table dfs.tmp.absent",
    "alter table dfs.tmp.kept rename to dfs.other",
    "close session 'no such session'",
)
OTHER_IN_EACH_SESSION = (
    *("createtab_stmt", "plan", "session_id", "client_session_id", "started_at", "last_active_at", "bytes", "tables"),
    *("createdAt", "ageSeconds", "is_current", "principal", "replicas"),
)


def command(query: str) -> Plan:
    plan = Plan()
    plan.command.sql_command.input.sql.query = query
    return plan


def older_command(query: str) -> Plan:
    plan = Plan()
    plan.command.sql_command.sql = query
    return plan


def root(query: str) -> Plan:
    return Plan(root=relations_pb2.Relation(sql=relations_pb2.SQL(query=query)))


def root_with_references(query: str) -> Plan:
    plan = Plan()
    plan.root.with_relations.root.sql.query = query
    reference = plan.root.with_relations.references.add()
    reference.subquery_alias.alias = "unused"
    reference.subquery_alias.input.range.end = 1
    reference.subquery_alias.input.range.step = 1
    return plan


FORMS: Sequence[Callable[[str], Plan]] = (command, older_command, root, root_with_references)


class RawClient:
    """A client that sends plans, without the help of a client library. Each has a principal of its own."""

    def __init__(self, target: str, session_id: str | None = None) -> None:
        self.channel = grpc.insecure_channel(target)
        self.stub = base_pb2_grpc.SparkConnectServiceStub(self.channel)
        self.session_id = session_id or str(uuid.uuid4())

    def request(self, plan: Plan, operation_id: str | None = None) -> base_pb2.ExecutePlanRequest:
        request = base_pb2.ExecutePlanRequest(
            session_id=self.session_id, operation_id=operation_id or str(uuid.uuid4()), plan=plan
        )
        request.user_context.user_id = self.session_id
        request.request_options.add().reattach_options.reattachable = True
        return request

    def execute(self, plan: Plan) -> Sequence[base_pb2.ExecutePlanResponse]:
        return list(self.stub.ExecutePlan(self.request(plan), timeout=120))

    def rows(self, plan: Plan) -> pa.Table:
        """Execute a plan, and return its rows, as a client library does."""
        responses = self.execute(plan)
        for response in responses:
            if response.HasField("sql_command_result"):
                relation = response.sql_command_result.relation
                if not relation.HasField("local_relation"):
                    return self.rows(Plan(root=relation))
                return read_table(relation.local_relation.data)
        return pa.concat_tables(rows_in(responses))

    def analyze(self, plan: Plan) -> base_pb2.AnalyzePlanResponse:
        request = base_pb2.AnalyzePlanRequest(session_id=self.session_id)
        request.user_context.user_id = self.session_id
        request.schema.plan.CopyFrom(plan)
        return self.stub.AnalyzePlan(request, timeout=120)

    def refusal(self, plan: Plan) -> str:
        with pytest.raises(grpc.RpcError) as refused:
            self.execute(plan)
        return str(refused.value.details())


@pytest.fixture
def new_raw_client():
    clients = []

    def make(target: str, session_id: str | None = None) -> RawClient:
        clients.append(RawClient(target, session_id))
        return clients[-1]

    yield make
    for client in clients:
        client.channel.close()


def read_table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def rows_in(responses: Sequence[base_pb2.ExecutePlanResponse]) -> Sequence[pa.Table]:
    return [read_table(each.arrow_batch.data) for each in responses if each.HasField("arrow_batch")]


def comparable(rows: pa.Table) -> object:
    """Return the names of the columns, and the values that are the same in two sessions."""
    kept = [name for name in rows.column_names if name not in OTHER_IN_EACH_SESSION]
    return rows.column_names, rows.select(kept).to_pylist()


@pytest.mark.parametrize("form", quick_first(*FORMS[1:]))
def test_each_statement_has_the_same_answer_in_each_form(writable, new_raw_client, form):
    (writable.files / "f.csv").write_text("a\n1\n")
    expected, answers = (
        [(statement, comparable(client.rows(make(statement)))) for statement in STATEMENTS]
        for client, make in ((new_raw_client(writable.target), command), (new_raw_client(writable.target), form))
    )
    assert answers == expected


def test_each_refusal_is_the_same_in_each_form(writable, new_raw_client):
    client = new_raw_client(writable.target)
    client.execute(command("create temporary table kept as select 1 a"))
    for statement in REFUSED:
        first, *others = [client.refusal(form(statement)) for form in FORMS]
        assert set(others) == {first}, statement
    assert client.rows(root("select * from kept")).to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("statement", ["show temporary tables", "create temporary table t as select 1 a"])
def test_root_relation_is_answered_in_the_format_of_spark(lodge, spark_server, new_raw_client, statement):
    """Spark sends the schema, then at least one batch of rows, and the end."""
    sparks = new_raw_client(spark_server.removeprefix("sc://")).execute(root("show tables"))
    answer = new_raw_client(lodge.target).execute(root(statement))
    kinds = ("schema", "arrow_batch", "result_complete")
    expected, found = (
        [(kind, each) for each in responses for kind in kinds if each.HasField(kind)] for responses in (sparks, answer)
    )
    assert [kind for kind, _ in found] == [kind for kind, _ in expected] == list(kinds)
    (rows,) = rows_in(answer)
    assert proto_schema_to_pyspark_data_type(found[0][1].schema) == from_arrow_schema(rows.schema)
    assert found[1][1].arrow_batch.row_count == rows.num_rows


def test_statement_within_a_plan_is_refused_and_changes_nothing(lodge, new_raw_client):
    client = new_raw_client(lodge.target)
    client.execute(command("create temporary table t as select 1 a"))
    for statement in ("insert into t values (2)", "create temporary table u as select 1 a", "drop table t"):
        shown = Plan()
        shown.root.show_string.input.sql.query = statement
        assert "LODGE_STATEMENT_IN_PLAN" in client.refusal(shown)
        with pytest.raises(grpc.RpcError, match="LODGE_STATEMENT_IN_PLAN"):
            client.analyze(root(statement))
    assert client.rows(root("select * from t")).to_pylist() == [{"a": 1}]
    assert client.rows(root("show temporary tables")).num_rows == 1


@pytest.mark.slow
def test_client_of_a_root_relation_reattaches_elsewhere_to_rows(start_lodge, spark_server, new_raw_client, wait_until):
    """The other gateway knows only from the session record in which form the client expects the answer."""
    first = start_lodge(backend=spark_server)
    second = start_lodge(backend=spark_server, beside=first)
    client = new_raw_client(first.target)
    slow = "select id, java_method('java.lang.Thread', 'sleep', 500 + id * 0) s from range(0, 8, 1, 1)"
    request = client.request(root(f"create temporary table t as {slow}"))
    stream = client.stub.ExecutePlan(request)
    wait_until(lambda: any(first.root.glob("*/*/_temporary")), "the write has begun")
    kill(first)
    stream.cancel()
    client = new_raw_client(second.target, client.session_id)
    reattach = base_pb2.ReattachExecuteRequest(session_id=client.session_id, operation_id=request.operation_id)
    reattach.user_context.CopyFrom(request.user_context)
    for _ in range(2):  # the second time, the record contains only the answer
        responses = list(client.stub.ReattachExecute(reattach, timeout=120))
        assert [table.to_pylist() for table in rows_in(responses)] == [
            [{"Fragment": "0_0", "Number of records written": 8}]
        ]
        assert "statement_taken_over" in second.log()
