"""Principals with tokens: the things of others do not exist, and owners and administrators have their rights."""

import json
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from gateway.authentication.token_entries import new_token, render_token_file
from tests.conftest import wait_until

GROUPS = {"ada": ["data"], "bob": [], "carol": ["data"], "grace": ["admins"], "ops": []}


@pytest.fixture(scope="module")
def guarded(start_lodge, spark_server, tmp_path_factory):
    """A gateway with a token file, and the token of each principal."""
    directory = tmp_path_factory.mktemp("tokens")
    made = {name: new_token(name, groups, now=datetime.now(UTC)) for name, groups in GROUPS.items()}
    file = directory / "tokens.yaml"
    file.write_bytes(render_token_file([entry for _, entry in made.values()]))
    methods = json.dumps([{"kind": "tokens", "file": str(file)}])
    lodge = start_lodge(
        *("--authentication", methods, "--admins", "ops,group:admins", "--writable-workspace", "dfs"),
        *("--audit-log", str(directory / "audit.log")),
        backend=spark_server,
    )
    lodge.tokens = {name: token for name, (token, _) in made.items()}
    lodge.audit_file = directory / "audit.log"
    return lodge


@pytest.fixture(scope="module")
def connect_as(guarded):
    """Create sessions of principals. They end with the module."""
    sessions = []

    def connect(principal: str) -> SparkSession:
        port = guarded.target.rpartition(":")[2]
        remote = f"sc://localhost:{port}/;token={guarded.tokens[principal]};user_id=claimed"
        sessions.append(SparkSession.builder.remote(remote).create())
        return sessions[-1]

    yield connect
    for session in sessions:
        session.stop()


@pytest.fixture(scope="module")
def ada(connect_as):
    return connect_as("ada")


@pytest.fixture(scope="module")
def bob(connect_as):
    return connect_as("bob")


@pytest.fixture(scope="module")
def ops(connect_as):
    return connect_as("ops")


def refused(run: Callable[[], object], condition: str) -> str:
    with pytest.raises(PySparkException) as raised:
        run()
    assert raised.value.getCondition() == condition, raised.value
    return str(raised.value)


def audit(guarded, event: str) -> list[dict[str, object]]:
    lines = guarded.audit_file.read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if entry["event"] == event]


def listed(spark: SparkSession) -> set[str]:
    return {row.session_id for row in spark.sql("show sessions").collect()}


def administrative_acts(guarded) -> list[tuple[object, ...]]:
    fields = ("principal", "act", "target", "owner")
    return [tuple(each.get(field) for field in fields) for each in audit(guarded, "administrative_act")]


def test_only_owner_group_and_administrators_drop_permanent_tables(guarded, connect_as, ada, bob):
    for name in ("a", "b", "c", "d"):
        ada.sql(f"create table dfs.{name} as select 1 x").collect()
    message = refused(lambda: bob.sql("drop table dfs.a").collect(), "LODGE_ACCESS_DENIED")
    assert "Principal [bob] is not allowed to drop table [dfs.a]" in message
    refused(lambda: bob.sql("drop table if exists dfs.a").collect(), "LODGE_ACCESS_DENIED")
    assert bob.sql("select * from dfs.a").count() == 1
    ada.sql("drop table dfs.a").collect()
    connect_as("carol").sql("drop table dfs.b").collect()
    connect_as("grace").sql("drop table dfs.c").collect()
    connect_as("ops").sql("drop table dfs.d").collect()
    assert list(guarded.files.iterdir()) == []
    assert list((guarded.root / ".lodge" / "table-owners").iterdir()) == []
    wait_until(lambda: ("ops", "drop_table", "dfs.d", "ada") in administrative_acts(guarded), "the audit event")
    denied = [(each["principal"], each["target"], each["name"]) for each in audit(guarded, "access_refused")]
    assert set(denied) == {("bob", "table", "dfs.a")}
    acts = administrative_acts(guarded)
    assert ("grace", "drop_table", "dfs.c", "ada") in acts


def test_forged_owner_does_not_count(guarded, ada, bob, ops):
    ada.sql("create table dfs.mine as select 1 x").collect()
    bob.sql("create table dfs.other as select 1 x").collect()
    description = (guarded.files / "other" / ".lodge-table.json").read_bytes()
    (guarded.files / "mine" / ".lodge-table.json").write_bytes(description)  # as code of bob in Spark could do
    message = refused(lambda: bob.sql("drop table dfs.mine").collect(), "LODGE_ACCESS_DENIED")
    assert "only an administrator can drop it" in message
    for name in ("mine", "other"):
        ops.sql(f"drop table dfs.{name}").collect()


def test_principals_list_and_close_their_own_sessions(ada, bob):
    assert {row.principal for row in ada.sql("show sessions").collect()} == {"ada"}
    (own,) = [row for row in bob.sql("show sessions").collect() if row.is_current]
    assert own.client_session_id == bob.session_id
    for session_id in (own.session_id, own.client_session_id):
        with_id = f"close session '{session_id}'"
        refused(lambda with_id=with_id: ada.sql(with_id).collect(), "LODGE_SESSION_NOT_FOUND")
    assert bob.sql("select 1").count() == 1


def test_administrators_list_and_close_all_sessions(guarded, connect_as, ops):
    victim = connect_as("bob")
    before = set(guarded.locations())
    victim.sql("create temporary table t as select 1 a").collect()
    (location,) = set(guarded.locations()) - before
    rows = {row.session_id: row for row in ops.sql("show sessions").collect()}
    assert {"ops", "bob"} <= {row.principal for row in rows.values()}
    assert rows[location.name].client_session_id == victim.session_id
    ops.sql(f"close session '{victim.session_id}'").collect()
    wait_until(lambda: not location.exists(), "the end of the session")
    refused(lambda: victim.sql("select 1").collect(), "INVALID_HANDLE.SESSION_CLOSED")
    closed = ("ops", "close_session", location.name, "bob")
    wait_until(lambda: closed in administrative_acts(guarded), "the audit event")


def test_closed_session_interrupts_its_statements(guarded, connect_as, ops):
    victim = connect_as("bob")
    (row,) = [row for row in victim.sql("show sessions").collect() if row.is_current]
    errors: list[PySparkException] = []

    def run():
        sleep = "java_method('java.lang.Thread', 'sleep', id + 60000)"
        try:
            victim.sql(f"create temporary table slow as select {sleep} a from range(1)").collect()
        except PySparkException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    location = guarded.root / row.session_id
    wait_until(lambda: any(location.glob("*/_temporary")), "the write of the statement")
    ops.sql(f"close session '{row.session_id}'").collect()
    thread.join(30)
    assert not thread.is_alive()
    assert [error.getCondition() for error in errors] == ["OPERATION_CANCELED"]
    wait_until(lambda: row.session_id not in listed(ops), "the end of the session")


class Raw:
    """The RPCs of one principal, without a client's own checks."""

    def __init__(self, guarded, principal: str) -> None:
        self._channel = grpc.insecure_channel(guarded.target)
        self._stub = base_pb2_grpc.SparkConnectServiceStub(self._channel)
        self._metadata = (("authorization", f"Bearer {guarded.tokens[principal]}"),)

    def outcome(self, method: str, request, hidden: dict[str, str]) -> str:
        """Return the answer or the error of a call, without the ids that the caller chose."""
        call = getattr(self._stub, method)
        try:
            answer = call(request, metadata=self._metadata, timeout=60)
            answers = list(answer) if hasattr(answer, "__iter__") else [answer]
            text = "".join(map(str, answers))
        except grpc.RpcError as error:
            text = f"{error.code()} {error.details()} {_conditions(error)}"
        for value, name in hidden.items():
            text = text.replace(value, name)
        return "\n".join(line for line in text.splitlines() if "server_side_session_id" not in line)


def _conditions(error: grpc.RpcError) -> list[str]:
    found = []
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for each in status_pb2.Status.FromString(value).details:
            info = error_details_pb2.ErrorInfo()
            if each.Is(info.DESCRIPTOR) and each.Unpack(info):
                found.append(info.metadata.get("errorClass", ""))
    return found


def _requests(session_id: str, operation_id: str, victim: str):
    """Return a request of each method that names a session and an operation."""
    context = base_pb2.UserContext(user_id=victim)
    own = {"session_id": session_id, "user_context": context}
    interrupt = base_pb2.InterruptRequest
    release_all = base_pb2.ReleaseExecuteRequest.ReleaseAll()
    analysis = base_pb2.AnalyzePlanRequest(**own)
    analysis.schema.plan.root.read.named_table.unparsed_identifier = "dfs.tmp.secret"
    read = base_pb2.ExecutePlanRequest(**own)
    read.plan.root.read.named_table.unparsed_identifier = "secret"
    return [
        ("ReattachExecute", base_pb2.ReattachExecuteRequest(**own, operation_id=operation_id)),
        ("ReleaseExecute", base_pb2.ReleaseExecuteRequest(**own, operation_id=operation_id, release_all=release_all)),
        ("Interrupt", interrupt(**own, interrupt_type=interrupt.INTERRUPT_TYPE_ALL)),
        (
            "Interrupt",
            interrupt(**own, interrupt_type=interrupt.INTERRUPT_TYPE_OPERATION_ID, operation_id=operation_id),
        ),
        ("ArtifactStatus", base_pb2.ArtifactStatusesRequest(**own, names=["cache/secret"])),
        ("FetchErrorDetails", base_pb2.FetchErrorDetailsRequest(**own, error_id=operation_id)),
        ("GetStatus", base_pb2.GetStatusRequest(**own)),
        ("CloneSession", base_pb2.CloneSessionRequest(**own)),
        ("AnalyzePlan", analysis),
        ("ExecutePlan", read),
        ("ReleaseSession", base_pb2.ReleaseSessionRequest(**own)),
    ]


@pytest.mark.slow
def test_session_and_operation_of_another_principal_do_not_exist(guarded, connect_as):
    """The attacker gets the same answers for the ids of another principal as for ids that nobody uses."""
    victim = connect_as("ada")
    victim.sql("create temporary table secret as select 'swordfish' a").collect()
    read = base_pb2.ExecutePlanRequest(session_id=victim.session_id, operation_id=str(uuid.uuid4()))
    read.plan.root.sql.query = "select * from dfs.tmp.secret"
    read.request_options.add().reattach_options.reattachable = True
    reattach = base_pb2.ReattachExecuteRequest(session_id=victim.session_id, operation_id=read.operation_id)
    owner, attacker = Raw(guarded, "ada"), Raw(guarded, "bob")
    assert "swordfish" in owner.outcome("ExecutePlan", read, {})  # the backend keeps the operation
    ids = ((victim.session_id, read.operation_id), (str(uuid.uuid4()), str(uuid.uuid4())))
    for (method, attack), (_, guess) in zip(*(_requests(*each, "ada") for each in ids), strict=True):
        outcomes = [
            attacker.outcome(method, request, {session_id: "SESSION", operation_id: "OPERATION"})
            for request, (session_id, operation_id) in zip((attack, guess), ids, strict=True)
        ]
        assert "swordfish" not in outcomes[0]
        assert _without_ids(outcomes[0]) == _without_ids(outcomes[1]), method
        assert "swordfish" in owner.outcome("ReattachExecute", reattach, {}), method
    assert victim.sql("select * from secret").collect()[0].a == "swordfish"


def _without_ids(text: str) -> str:
    """Remove random ids, which differ between two calls."""
    words = text.replace('"', " ").replace("'", " ").replace("[", " ").replace("]", " ").split()
    return " ".join("ID" if len(word) == 36 and word.count("-") == 4 else word for word in words)
