"""Requests with a path into the temporary workspace are refused and audited."""

import threading
import time
from pathlib import Path

import pytest
import pytest_asyncio
from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.types import StructType

from engine.scan_signature import KEY_FILE
from gateway.auditing.audit import Audit
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.pools import Pool
from gateway.blocking_work.request_pools import MAX_FIELDS, RequestPools
from gateway.errors import GatewayError
from gateway.messages.wire import LENGTH, encode_field, encode_varint
from gateway.names import path_checks
from gateway.names.path_checks import PathChecks
from gateway.plans.plan_decoding import decode_message
from gateway.stored_tables.table_descriptions import DESCRIPTION_FILE, TableDescription
from workspace.workspaces import Workspace, Workspaces

SESSION = "b45c25f6-ae64-4be0-bdd2-a6e50d1d191d"


class RecordingAudit(Audit):
    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def access_refused(self, *, target: str, name: str, reason: str) -> None:
        assert target == "file"
        self.refused.append(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "tmp"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def audit() -> RecordingAudit:
    return RecordingAudit()


@pytest_asyncio.fixture
async def checks(root: Path, audit: RecordingAudit):
    temporary = Workspace("dfs.tmp", root, is_writable=True)
    workspaces = Workspaces({"dfs": Workspace("dfs", root.parent), "dfs.tmp": temporary}, temporary)
    pools = RequestPools()
    reads = Pool("reads", 2, refusal=lambda: GatewayError("BUSY", "58000", "busy"), timeout_seconds=30, max_abandoned=2)
    yield PathChecks(CurrentWorkspaces(workspaces, reads), audit, pools)
    await reads.close()
    await pools.close()


def sql(text: str) -> base_pb2.Plan:
    plan = base_pb2.Plan()
    plan.command.sql_command.input.sql.query = text
    return plan


def scan(path: str | Path, schema: str = "") -> base_pb2.Plan:
    source = relations_pb2.Read.DataSource(format="parquet", paths=[str(path)], schema=schema or None)
    return base_pb2.Plan(root=relations_pb2.Relation(read=relations_pb2.Read(data_source=source)))


async def check(checks: PathChecks, plan: base_pb2.Plan) -> None:
    await checks.check(plan.SerializeToString(), [plan], 100)


async def is_refused(checks: PathChecks, plan: base_pb2.Plan) -> bool:
    try:
        await check(checks, plan)
    except GatewayError as error:
        assert (error.condition, error.sql_state) == ("LODGE_PATH_REFUSED", "42501")
        return True
    return False


@pytest.mark.asyncio
async def test_refusal_is_audited(checks, root, audit):
    path = f"{root}/{SESSION}"
    assert await is_refused(checks, sql(f"select * from parquet.`{path}`"))
    assert await is_refused(checks, scan(path))
    assert audit.refused == [path, path]
    assert not await is_refused(checks, scan("/elsewhere"))
    assert len(audit.refused) == 2


@pytest.mark.asyncio
async def test_names_in_workspaces_are_left_to_name_resolution(checks):
    for name in ("dfs.`*`", "dfs.tmp.`*`", "DFS.`tmp/x`", "dfs.tmp.`.lodge`", f"dfs.`tmp/{SESSION}`"):
        assert not await is_refused(checks, sql(f"select * from {name}")), name
    assert await is_refused(checks, sql(f"select * from parquet.`tmp/{SESSION}`"))


@pytest.mark.asyncio
async def test_expressions_of_compressed_plans_are_examined(checks, root):
    """The bytes of the request do not show the words of a subquery."""
    plan = base_pb2.Plan()
    expression = plan.root.project.expressions.add().expression_string
    expression.expression = f"(select count(*) from parquet.`{root}/*`)"
    with pytest.raises(GatewayError, match="LODGE_PATH_REFUSED"):
        await checks.check(None, [plan], plan.ByteSize())


@pytest.mark.asyncio
async def test_size_after_decompression_decides_about_the_thread(checks, monkeypatch):
    threads = []
    monkeypatch.setattr(
        path_checks, "find_plan_paths", lambda *_, **__: threads.append(threading.current_thread()) or ()
    )
    for size_bytes in (100, 10_000_000):
        await checks.check(b"", [base_pb2.Plan()], size_bytes)
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threading.current_thread()


@pytest.mark.asyncio
async def test_links_are_followed(checks, root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    for plan in (scan(tmp_path / "link"), scan(tmp_path / "link", "a int"), scan(f"file:{tmp_path}/link/*/x")):
        assert await is_refused(checks, plan)
    assert not await is_refused(checks, scan(tmp_path / "other"))


@pytest.mark.asyncio
async def test_scan_of_a_permanent_table_passes_only_in_the_form_that_lodge_sends(checks, root):
    for name in ("kept", SESSION):
        (root / name).mkdir()
        description = TableDescription(StructType(), "parquet", {})
        (root / name / DESCRIPTION_FILE).write_bytes(description.encode())
    (root / "files").mkdir()
    assert not await is_refused(checks, scan(root / "kept", "a int"))
    for plan in (
        scan(root / "kept"),
        scan(f"{root}/kept/", "a int"),
        scan(f"{root}/kep*", "a int"),
        scan(root / "kept" / "x", "a int"),
        scan(root / "files", "a int"),
        scan(root / SESSION, "a int"),
        scan(root, "a int"),
        sql(f"select * from parquet.`{root}/kept`"),
    ):
        assert await is_refused(checks, plan)
    overwrites = base_pb2.Plan()
    overwrites.command.write_operation.input.CopyFrom(scan(root / "kept", "a int").root)
    overwrites.command.write_operation.path = str(root / "kept")
    assert await is_refused(checks, overwrites)


@pytest.mark.asyncio
async def test_many_scans_of_a_permanent_table_take_linear_time(checks, root):
    """Eight times the scans take about eight times as long. Quadratic time would be 64 times as long."""
    (root / "kept").mkdir()
    (root / "kept" / DESCRIPTION_FILE).write_bytes(TableDescription(StructType(), "parquet", {}).encode())

    async def seconds(count):
        plan = base_pb2.Plan()
        for number in range(count):
            plan.root.with_relations.references.add().CopyFrom(scan(root / "kept", "a int").root)
            others = scan(f"/elsewhere/{number}").root
            others.read.data_source.paths.extend(f"/elsewhere/{number}/{part}" for part in range(20))
            plan.root.with_relations.references.add().CopyFrom(others)
        begun = time.thread_time()
        await check(checks, plan)
        return time.thread_time() - begun

    small = max(min([await seconds(75) for _ in range(3)]), 0.001)
    assert min([await seconds(600) for _ in range(3)]) < 24 * small


@pytest.mark.asyncio
async def test_settings_with_paths_into_the_workspace_are_refused(checks, root):
    async def refused(value: str, key: str = "k") -> bool:
        request = base_pb2.ConfigRequest(session_id=SESSION)
        request.operation.set.pairs.add(key=key, value=value)
        try:
            await checks.check_settings(request.SerializeToString())
        except GatewayError as error:
            assert error.condition == "LODGE_PATH_REFUSED"
            return True
        return False

    assert await refused(f"{root}/x")
    assert await refused(f"file:{root}")
    assert await refused(f"select * from parquet.`{root}/x`")
    assert await refused(f"file://{root.parent}", "fs.viewfs.mounttable.c.link./a")
    assert await refused(f"file://{root.parent}", "spark.hadoop.fs.viewfs.mounttable.c.linkFallback")
    assert not await refused(f"file://{root.parent}", "spark.sql.warehouse.dir")
    for value in ("/", "/x", "America/New_York", "1", "parquet.`/x`"):
        assert not await refused(value), value


def nest(encoded: bytes, depth: int = 120) -> bytes:
    """Return an encoded relation inside limits, deeper than the decoder allows."""
    for _ in range(depth):
        encoded = encode_field(8, encode_field(1, encoded))
    return encoded


@pytest.mark.asyncio
async def test_deep_plan_is_searched_for_parent_directories(checks, root):
    async def refused(encoded: bytes) -> bool:
        return await is_refused(checks, decode_message(base_pb2.Plan, encoded))

    for path in (str(root.parent), f"{root}/x", "/", "file:/", f"{root.parent.parent}/*"):
        query = sql(f"select * from parquet.`{path}`").command.sql_command.input.SerializeToString()
        for relation in (query, scan(path).root.SerializeToString()):
            references = encode_field(41, encode_field(1, relation) + encode_field(2, nest(b"")))
            command = encode_field(2, encode_field(5, encode_field(6, references)))
            for plan in (encode_field(1, nest(relation)), encode_field(1, references), command):
                assert await refused(plan), path
    harmless = sql("select a / b /* hint */ from parquet.`/elsewhere`").command.sql_command.input
    assert not await refused(encode_field(1, nest(harmless.SerializeToString())))


@pytest.mark.asyncio
async def test_path_above_the_limit_is_refused(checks):
    assert not await is_refused(checks, scan("/x" + "/a" * 1000))
    assert await is_refused(checks, scan("/x" + "/a" * 500_000))


def artifact(name: str, *, is_chunked: bool = False) -> bytes:
    request = base_pb2.AddArtifactsRequest(session_id=SESSION)
    if is_chunked:
        request.begin_chunk.name = name
    else:
        request.batch.artifacts.add(name=name)
    return request.SerializeToString()


@pytest.mark.asyncio
async def test_artifacts_that_spark_copies_into_the_workspace_are_refused(checks, root, audit):
    for is_chunked in (False, True):
        for name in (f"forward_to_fs{root}/x", f"forward_to_fs/a/..{root}/.lodge/sessions/x"):
            with pytest.raises(GatewayError, match="may lead into"):
                await checks.check_artifacts(artifact(name, is_chunked=is_chunked))
        for name in ("forward_to_fs/elsewhere/x", f"files{root}/x", "cache/x", "files/a%b#c.csv", "archives/a.zip#b/c"):
            await checks.check_artifacts(artifact(name, is_chunked=is_chunked))
    assert len(audit.refused) == 4


OUT_OF_THE_SESSION = ["", ".", "/", "..", "../../x", "/../x", "a/../../x", "%2e%2e/x", "%252e%252e%252fx", "..%5cx"]


@pytest.mark.asyncio
@pytest.mark.parametrize("directory", OUT_OF_THE_SESSION)
async def test_archives_that_spark_unpacks_out_of_the_session_are_refused(checks, audit, directory):
    """Spark first deletes the directory into which it unpacks an archive."""
    for is_chunked in (False, True):
        with pytest.raises(GatewayError, match="outside of a directory of its own"):
            await checks.check_artifacts(artifact(f"archives/a.zip#{directory}", is_chunked=is_chunked))
    for statement in ("add archive a.zip#{}", "add archives b.zip#b a.zip#{}", "add archive '/x/a.zip#{}'"):
        with pytest.raises(GatewayError, match="LODGE_PATH_REFUSED"):
            await check(checks, sql(statement.format(directory)))
    assert len(audit.refused) == 5


@pytest.mark.asyncio
async def test_other_statements_may_contain_the_sign_before_the_directory_of_an_archive(checks):
    for statement in ("refresh /data/c#", "set a = #", "add archive /data/a.zip#own", "select '#' from csv.`/data/c#`"):
        await check(checks, sql(statement))


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [KEY_FILE, KEY_FILE.replace("-", "%2D"), KEY_FILE.replace("-", "%252D")])
async def test_names_of_keys_are_refused(checks, name):
    for added in (f"files/{name}1", f"archives/a.txt#{name}1", f"forward_to_fs/x/{name}1"):
        with pytest.raises(GatewayError, match="Only Lodge adds files with this name"):
            await checks.check_artifacts(artifact(added))
    for statement in ("add file /x/{}1", "add file {}1", "add archive a.txt#{}1", "add archives b.zip a.txt#{}1"):
        with pytest.raises(GatewayError, match="Only Lodge adds files with this name"):
            await check(checks, sql(statement.format(name)))


@pytest.mark.asyncio
async def test_names_of_artifacts_that_are_too_long_for_paths_are_refused_without_reading_them(checks):
    with pytest.raises(GatewayError, match="more than"):
        await checks.check_artifacts(artifact("files/" + "%25" * 100_000))


@pytest.mark.asyncio
async def test_message_that_only_other_decoders_accept_is_refused(checks, root):
    """protobuf-java drops the upper bits of a tag."""
    tag = encode_varint(1 << 35 | 1 << 3 | LENGTH)
    artifact = encode_field(1, f"forward_to_fs{root}/x".encode())
    pair = encode_field(1, b"k") + encode_field(2, f"{root}/x".encode())
    with pytest.raises(GatewayError, match="CANNOT_PARSE"):
        await checks.check_artifacts(encode_field(3, tag + encode_varint(len(artifact)) + artifact))
    with pytest.raises(GatewayError, match="CANNOT_PARSE"):
        await checks.check_settings(encode_field(3, encode_field(1, tag + encode_varint(len(pair)) + pair)))


@pytest.mark.asyncio
async def test_messages_with_millions_of_fields_are_refused_before_they_are_decoded(checks, monkeypatch):
    empty = encode_field(1, b"") * (MAX_FIELDS + 1)
    artifacts = encode_field(1, encode_field(1, b"forward_to_fs/x")) + empty
    pairs = encode_field(1, encode_field(1, b"k") + encode_field(2, b"/x")) + empty
    monkeypatch.setattr("gateway.plans.plan_decoding.decode_request", pytest.fail)
    with pytest.raises(GatewayError, match="fields"):
        await checks.check_artifacts(encode_field(3, artifacts))
    with pytest.raises(GatewayError, match="fields"):
        await checks.check_settings(encode_field(3, encode_field(1, pairs)))
