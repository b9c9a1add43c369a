"""One statement, sent to two gateways at once under the same operation id. It begins once."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.gateway.tables.test_faults import ROWS, slow, tables_on_disk


@pytest.fixture(scope="module")
def gateways(start_lodge, spark_server):
    """Two gateways of one workspace."""
    first = start_lodge(backend=spark_server)
    return [first, start_lodge(backend=spark_server, beside=first)]


def execute(gateway, request):
    """Return whether the gateway executed or followed the statement, and did not refuse it."""
    with grpc.insecure_channel(gateway.target) as channel:
        responses = list(base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request, timeout=60))
    return any(response.HasField("result_complete") for response in responses)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        (None, f"create temporary table t as {slow(20)}", ROWS),
        (None, f"create temporary table if not exists t as {slow(20)}", ROWS),
        ("create temporary table t as select 0L id, '' s", f"insert into t {slow(20)}", ROWS + 1),
        ("create temporary table t as select 0L id, '' s", f"insert overwrite t {slow(20)}", ROWS),
        ("create temporary table t as select 0L id, '' s", "drop table t", None),
    ],
    ids=["creation", "creation if not exists", "insertion", "overwriting", "drop"],
)
def test_both_gateways_return_the_one_answer(gateways, connect, case):
    before, statement, rows = case
    spark = connect(gateways[0], user_id="ada")
    other = connect(gateways[1], user_id="ada", session_id=spark.session_id)
    other.conf.get("spark.app.name")  # both gateways serve the session
    if before is not None:
        spark.sql(before).collect()
    request = base_pb2.ExecutePlanRequest(session_id=spark.session_id, operation_id=str(uuid.uuid4()))
    request.user_context.user_id = "ada"
    request.request_options.add().reattach_options.reattachable = True
    request.plan.command.sql_command.input.sql.query = statement
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(execute, gateways, [request, request])) == [True, True]
    if rows is None:
        assert not spark.catalog.tableExists("t")
    else:
        assert spark.table("t").count() == rows
        assert other.table("t").count() == rows
    spark.stop()
    assert "Traceback" not in gateways[0].log() + gateways[1].log()
    assert not tables_on_disk(gateways[0])
