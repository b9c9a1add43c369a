"""Names in plans: where they are found, and which bytes stay the same."""

import asyncio
import uuid

import pytest
import zstandard
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.auditing.audit import Audit
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.blocking_work.storage import make_workspace_reads
from gateway.errors import GatewayError
from gateway.messages.requests import SessionKey, read_request
from gateway.names.embedded_statements import CHANGING_WORDS, RUNNING_WORDS, TextPlace, may_embed_statement
from gateway.names.path_checks import PathChecks
from gateway.names.plan_resolver import PlanResolver
from gateway.names.request_resolver import RequestResolver
from gateway.names.sql_text_resolver import _refuse_view
from gateway.names.word_search import WordSearch
from gateway.operations.drain import Drain, GatewayStoppingError
from gateway.plans.plan_decoding import PlanDecoder
from gateway.scans.plannings import Plannings
from gateway.sql.lexer import tokenize
from gateway.sql.name_syntax import parse_plan_name
from tests.gateway.thread_time import least_thread_seconds
from workspace.identifiers import TableUuid
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspaces

Operation = base_pb2.Plan.CompressedOperation
KEY = SessionKey("ada", "s")


@pytest.fixture
def workspaces(tmp_path):
    for name in ("files", "tmp"):
        (tmp_path / name).mkdir()
    uris = {"dfs": (tmp_path / "files").as_uri(), "dfs.tmp": (tmp_path / "tmp").as_uri()}
    return Workspaces.from_uris(uris, "dfs.tmp")


@pytest.fixture
def resolve(workspaces):
    """Resolve a message in a session with the table ``t``; return if it changed."""

    def resolve_message(message, *tables, **settings):
        known = [TemporaryTable(name, TableUuid(name), TableState.READY, "parquet") for name in tables or ("t",)]
        return PlanResolver(workspaces, known, SessionSettings(**settings)).resolve(message)

    return resolve_message


def root(text):
    plan = base_pb2.Plan()
    plan.root.sql.query = text
    return plan


def command(text):
    plan = base_pb2.Plan()
    plan.command.sql_command.input.sql.query = text
    return plan


def request(plan):
    message = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()), operation_id="o", plan=plan, tags=["x"])
    return read_request(message.SerializeToString(), "ExecutePlan")


async def decode(request):
    decoder = PlanDecoder(RequestPools())
    return await decoder.decode(await decoder.read(request))


def compress(operation, kind):
    data = zstandard.compress(operation.SerializeToString())
    return base_pb2.Plan(compressed_operation=Operation(data=data, op_type=kind, compression_codec=1))


@pytest.mark.parametrize("kind", ["root", "command"])
async def test_compressed_plan_is_compressed_again(resolve, kind):
    plain = root("select * from dfs.tmp.t") if kind == "root" else command("select * from dfs.tmp.t")
    kinds = {"root": Operation.OP_TYPE_RELATION, "command": Operation.OP_TYPE_COMMAND}
    original = request(compress(getattr(plain, kind), kinds[kind]))
    decoded = await decode(original)
    plan = decoded.plan
    assert plan == plain
    assert resolve(plan)
    data = original.with_plan(decoded.encode()).data
    changed = base_pb2.ExecutePlanRequest.FromString(data)
    assert changed.plan.compressed_operation.op_type == kinds[kind]
    replaced = read_request(data, "ExecutePlan")
    assert (await decode(replaced)).plan == plan
    changed.ClearField("plan")
    unchanged = original.decode(base_pb2.ExecutePlanRequest)
    unchanged.ClearField("plan")
    assert changed == unchanged


async def test_analysis_in_a_long_discovery_is_handed_over(workspaces):
    """The client then sends it again, to another gateway."""
    (workspaces.by_name["dfs"].root / "a.json").write_text("{}")
    began = asyncio.Event()

    class Discovering(PlanResolver):
        async def plan_scans(self, message):
            began.set()
            await asyncio.Event().wait()

    async def get_resolver(texts):
        return Discovering(workspaces, [], SessionSettings())

    drain, pools = Drain(), RequestPools()
    plans = PlanDecoder(pools)
    current = CurrentWorkspaces(workspaces, make_workspace_reads())
    resolution = RequestResolver(current, PathChecks(current, Audit(), pools), pools, Plannings(drain), plans)
    asked = base_pb2.AnalyzePlanRequest(session_id="s")
    asked.schema.plan.root.read.named_table.unparsed_identifier = "dfs.`a.json`"
    analysis = asyncio.create_task(resolution.resolve_analysis(KEY, asked.SerializeToString(), get_resolver))
    await asyncio.wait_for(began.wait(), 30)
    drain.hand_over()
    with pytest.raises(GatewayStoppingError):
        await asyncio.wait_for(analysis, 30)


async def test_compressed_plans_of_an_analysis_are_resolved(workspaces):
    plan = compress(root("select * from dfs.tmp.t").root, Operation.OP_TYPE_RELATION)
    untouched = compress(root("select 1").root, Operation.OP_TYPE_RELATION)
    asked = base_pb2.AnalyzePlanRequest(session_id="s")
    asked.same_semantics.target_plan.CopyFrom(plan)
    asked.same_semantics.other_plan.CopyFrom(untouched)
    resolver = PlanResolver(
        workspaces, [TemporaryTable("t", TableUuid("t"), TableState.READY, "parquet")], SessionSettings()
    )

    async def get_resolver(texts):
        return resolver

    current, pools = CurrentWorkspaces(workspaces, make_workspace_reads()), RequestPools()
    plans = PlanDecoder(pools)
    resolution = RequestResolver(current, PathChecks(current, Audit(), pools), pools, Plannings(Drain()), plans)
    asked.ParseFromString((await resolution.resolve_analysis(KEY, asked.SerializeToString(), get_resolver)).data)
    assert asked.same_semantics.other_plan == untouched
    data = zstandard.decompress(asked.same_semantics.target_plan.compressed_operation.data)
    assert relations_pb2.Relation.FromString(data).sql.query == "select * from system.session.`t`"


@pytest.mark.parametrize(
    "data", [b"no frame", zstandard.compress(b"x") * 2, zstandard.compress(b"x" * 100)[:10], b"\x28\xb5\x2f\xfd" * 9]
)
async def test_malformed_compression_is_refused(data):
    plan = base_pb2.Plan(compressed_operation=Operation(data=data, op_type=Operation.OP_TYPE_COMMAND))
    with pytest.raises(GatewayError, match="cannot be decompressed"):
        await decode(request(plan))


async def test_huge_frame_is_refused_before_decompression():
    header = b"\x28\xb5\x2f\xfd\xe0" + (1 << 45).to_bytes(8, "little")
    plan = base_pb2.Plan(compressed_operation=Operation(data=header, op_type=Operation.OP_TYPE_COMMAND))
    with pytest.raises(GatewayError, match="is larger than"):
        await decode(request(plan))


def test_text_of_an_old_client_is_resolved(resolve):
    plan = base_pb2.Plan()
    plan.command.sql_command.sql = "select * from dfs.tmp.t where a = ?"
    plan.command.sql_command.pos_args.add().integer = 1
    assert resolve(plan)
    assert plan.command.sql_command.input.sql.query == "select * from system.session.`t` where a = ?"
    assert plan.command.sql_command.input.sql.pos_args[0].integer == 1


def test_parameter_with_a_name_is_removed(resolve):
    plan = command("select ? from identifier(?) where a = ?")
    for value in ("x", "dfs.tmp.t", "z"):
        plan.command.sql_command.input.sql.pos_arguments.add().literal.string = value
    assert resolve(plan)
    sql = plan.command.sql_command.input.sql
    assert sql.query.split() == ["select", "?", "from", "system.session.`t`", "where", "a", "=", "?"]
    assert [each.literal.string for each in sql.pos_arguments] == ["x", "z"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("execute immediate 'table dfs.tmp.t'", "execute immediate r'table system.session.`t`'"),
        (
            "execute immediate 'select ''x'' from dfs.tmp.t'",
            "execute immediate r\"select 'x' from system.session.`t`\"",
        ),
        (
            r"""execute immediate 'select ''x'', "y" from dfs.tmp.t'""",
            r"""execute immediate 'select \'x\', "y" from system.session.`t`'""",
        ),
        ("analyze table dfs.tmp.t compute statistics", "analyze table `t`       compute statistics"),
    ],
)
def test_only_names_change(resolve, text, expected):
    plan = command(text)
    assert resolve(plan)
    assert plan.command.sql_command.input.sql.query == expected


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select 'dfs.tmp.t'",
        "execute immediate 'select 1'",
        "begin select 1; end",
        "begin drop view u; end",
        "begin drop view default.t; end",
        "begin create table t (a int); end",
        "select * from identifier(:x)",
    ],
)
def test_plan_without_names_stays_the_same(resolve, text):
    for plan in (root(text), command(text)):
        before = plan.SerializeToString()
        assert not resolve(plan)
        assert plan.SerializeToString() == before


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("drop view t", "LODGE_STATEMENT_IN_PLAN"),
        ("/* select */ drop view t", "LODGE_STATEMENT_IN_PLAN"),
        ("alter view session.t rename to u", "LODGE_STATEMENT_IN_PLAN"),
        ("cache table t as select 1", "LODGE_STATEMENT_IN_PLAN"),
        ("drop table identifier('T')", "LODGE_STATEMENT_IN_PLAN"),
        ("drop table identifier(x)", "LODGE_STATEMENT_IN_PLAN"),
        ("drop table dfs.other.u", "LODGE_STATEMENT_IN_PLAN"),
        ("begin if x then drop view t; end if; end", "LODGE_STATEMENT_IN_SCRIPT"),
        ("execute immediate 'dr\\u006fp view t'", "LODGE_EXECUTE_IMMEDIATE"),
        ("execute immediate x", "LODGE_EXECUTE_IMMEDIATE"),
        ("beg\u0131n drop v\u0131ew t; end", "LODGE_STATEMENT_IN_SCRIPT"),
        ("execute \u0131mmediate 'drop view t'", "LODGE_EXECUTE_IMMEDIATE"),
        ("drop ${kind} t", "LODGE_VARIABLE_SUBSTITUTION"),
        ("drop view u${rest}", "LODGE_VARIABLE_SUBSTITUTION"),
        ("begin select '${x}'; end", "LODGE_VARIABLE_SUBSTITUTION"),
    ],
)
def test_embedded_change_of_a_table_is_refused(resolve, text, error):
    with pytest.raises(GatewayError) as raised:
        resolve(root(text))
    assert raised.value.condition == error


@pytest.mark.parametrize("text", ["drop view t", "execute immediate 'drop view t'", "begin drop view t; end"])
def test_embedded_change_of_another_name_passes(resolve, text):
    assert not resolve(root(text), "u")
    assert not resolve(root(text), "T", is_case_sensitive=True)
    with pytest.raises(GatewayError):
        resolve(root(text), "T")


@pytest.mark.parametrize(
    ("state", "hint"), [(TableState.CREATING, "still being created"), (TableState.DROPPING, "being dropped")]
)
def test_table_that_is_not_ready_is_not_found(workspaces, state, hint):
    table = TemporaryTable("t", TableUuid("t"), state, "parquet")
    with pytest.raises(GatewayError, match=hint):
        PlanResolver(workspaces, [table], SessionSettings()).resolve(root("table dfs.tmp.t"))


@pytest.mark.parametrize("text", ["begin x", "BEGIN x", "x; EXECUTE IMMEDIATE y", "beg\u0131n x", "${x}"])
def test_text_that_runs_statements_is_found(text):
    assert may_embed_statement(text, TextPlace.COMMAND)
    assert WordSearch(RUNNING_WORDS).matches_now(text.encode())


@pytest.mark.parametrize(
    "text", ["select beginning, immediately", "update t set a = 1", "drop view t", "select '\u0131'"]
)
def test_ordinary_command_is_not_examined(text):
    assert not may_embed_statement(text, TextPlace.COMMAND)


@pytest.mark.parametrize("text", ["drop view t", "ALTER view t", "\u0131n\u017fert into t", "x${"])
def test_text_that_changes_something_is_found(text):
    assert may_embed_statement(text, TextPlace.PLAN)
    assert WordSearch(CHANGING_WORDS).matches_now(text.encode())


def test_part_of_a_word_is_not_examined():
    assert not may_embed_statement("select created_at, updated, dropped from x", TextPlace.PLAN)


def test_query_of_many_values_resolves_without_reading_its_tokens(resolve, monkeypatch):
    monkeypatch.setattr("gateway.sql.lexer.MAX_TOKENS", 1000)
    values = ", ".join(f"({number}, 'name {number}')" for number in range(1000))
    assert not resolve(root(f"values {values}"))
    for text in ("select * from dfs.tmp.t", "select * from identifier('t')"):
        with pytest.raises(GatewayError, match="LODGE_STATEMENT_TOO_LONG"):
            resolve(root(f"{text}, values {values}"))


@pytest.mark.parametrize("text", [";", "then ", "; create "])
def test_statements_of_a_script_over_a_file_take_linear_time(text):
    def refuse(count):
        tokens = tokenize("select 1 " + text * count)
        return least_thread_seconds(lambda: _refuse_view(tokens), 3)

    assert refuse(8000) < 30 * max(refuse(1000), 0.0005)


def test_long_name_in_a_plan_is_refused():
    assert parse_plan_name("a." * 4000 + "a") == ("a",) * 4001
    with pytest.raises(GatewayError, match="more than 8,192 characters"):
        parse_plan_name("a" * 8193)
