"""Failed scans: the session lives, and the client gets one sentence.

The log has the traceback.
"""

import json
import uuid

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

NAME = "INVALID_HANDLE.SESSION_CLOSED"
SCHEMA = "with (header = true, schema = 'id int, s string')"


@pytest.fixture(scope="module")
def gateway(start_lodge, spark_server):
    gateway = start_lodge(backend=spark_server)
    for name in (f"{NAME}.csv", "value.csv"):
        (gateway.files / name).write_text(f"id,s\n1,x\n{NAME},y\n")
    (gateway.files / f"{NAME}.jsonl").write_text("{")
    return gateway


@pytest.fixture(scope="module")
def spark(gateway):
    session = SparkSession.builder.remote(gateway.address).create()
    session.sql("create temporary table kept as select 1 a").collect()
    yield session
    session.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        (f"select cast('{NAME}' as int)", "CAST_INVALID_INPUT"),
        (f"select raise_error('{NAME}')", "USER_RAISED_EXCEPTION"),
        (f"select * from dfs.`{NAME}.csv` {SCHEMA}", "LODGE_INVALID_VALUE"),
        (f"select * from dfs.`value.csv` {SCHEMA}", "LODGE_INVALID_VALUE"),
        (f"select * from dfs.`{NAME}.jsonl`", "LODGE_MALFORMED_FILE"),
        (f"create temporary table x as select * from dfs.`{NAME}.csv` {SCHEMA}", "LODGE_INVALID_VALUE"),
        (f"drop table dfs.tmp.`{NAME}`", "TABLE_OR_VIEW_NOT_FOUND"),
        (f"select * from dfs.`{NAME}`.x", "SCHEMA_NOT_FOUND"),
    ],
)
def test_text_like_a_closed_session_keeps_the_session_and_its_tables(spark, gateway, statement, condition):
    with pytest.raises(PySparkException) as raised:
        spark.sql(statement).collect()
    assert raised.value.getCondition() == condition
    assert [tuple(row) for row in spark.sql("select * from kept").collect()] == [(1,)]
    assert len(gateway.locations()) == 1


@pytest.mark.slow
def test_traceback_is_in_the_log_and_not_in_the_error(spark, gateway):
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"select * from dfs.`value.csv` {SCHEMA}").collect()
    assert len(str(raised.value).splitlines()) == 1
    events = [json.loads(line) for line in gateway.log().splitlines() if '"scan_failed"' in line]
    event = events[-1]
    assert (event["condition"], event["parameters"]["position"]) == ("LODGE_INVALID_VALUE", "line 3")
    assert any(line.startswith("Traceback") for line in event["traceback"])
    assert any("engine.errors.ValueConversionError" in line for line in event["traceback"])


@pytest.mark.slow
@pytest.mark.parametrize("simplified", ["true", "false"])
def test_report_survives_long_tracebacks(spark, simplified):
    spark.conf.set("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", simplified)
    try:
        for statement in ("select * from dfs.`value.csv` " + SCHEMA, f"select * from dfs.`{NAME}.jsonl`"):
            with pytest.raises(
                AnalysisException, match=r"^\[LODGE_\w+\] '[\w. ]+' in workspace 'dfs', line \d"
            ) as raised:
                spark.sql(statement).collect()
            assert "Traceback" not in str(raised.value)
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled")


def test_failed_write_reports_the_scan_despite_a_long_path(spark, gateway, tmp_path):
    folder = gateway.files.joinpath(*["d" * 200] * 8)
    folder.mkdir(parents=True)
    (folder / "value.csv").write_text("id,s\nno,y\n")
    frame = spark.sql(f"select * from dfs.`{folder.relative_to(gateway.files)}/value.csv` {SCHEMA}")
    spark.sql(f"create table lake (id int, s string) using parquet location '{tmp_path / 'insert'}'").collect()
    try:
        for write in (
            lambda: frame.write.parquet(str(tmp_path / "write")),
            lambda: frame.write.insertInto("lake"),
        ):
            with pytest.raises(AnalysisException, match=r"value\.csv' in workspace 'dfs', line 2: .*'no'") as raised:
                write()
            assert raised.value.getCondition() == "LODGE_INVALID_VALUE"
    finally:
        spark.sql("drop table lake").collect()


def test_analysis_of_a_malformed_file_fails_like_its_execution(gateway):
    request = base_pb2.AnalyzePlanRequest(session_id=str(uuid.uuid4()))
    request.schema.plan.root.read.named_table.unparsed_identifier = f"dfs.`{NAME}.jsonl`"
    with grpc.insecure_channel(gateway.target) as channel, pytest.raises(grpc.RpcError) as raised:
        base_pb2_grpc.SparkConnectServiceStub(channel).AnalyzePlan(request)
    details = dict(raised.value.trailing_metadata())["grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(details).details[0].Unpack(info)
    assert info.metadata["errorClass"] == "LODGE_MALFORMED_FILE"
    assert set(info.metadata) == {"classes", "errorClass", "sqlState", "messageParameters"}


def test_query_text_like_a_report_is_shown_to_its_user(spark):
    report = "engine.error_report.ScanError: [LODGE_FAKE] my text SQLSTATE: 22000 {}"
    with pytest.raises(PySparkException, match="my text"):
        spark.sql(f"select raise_error('\n{report}')").collect()
    assert [tuple(row) for row in spark.sql("select * from kept").collect()] == [(1,)]


def test_too_long_user_id_is_refused_in_every_method(gateway):
    context = base_pb2.UserContext(user_id="x" * 1025)
    with grpc.insecure_channel(gateway.target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        config = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), user_context=context)
        upload = base_pb2.AddArtifactsRequest(session_id=str(uuid.uuid4()), user_context=context)
        for call in (lambda: stub.Config(config), lambda: stub.AddArtifacts(iter([upload]))):
            with pytest.raises(grpc.RpcError, match="LODGE_USER_ID_TOO_LONG"):
                call()
