"""Every error of the reference, as the Python, Scala and Go clients show it.

A server that answers with the product's own statuses shows every error to every client. Besides, PySpark provokes as
many as possible with SQL at a real gateway and a real Spark, and the other clients provoke a few of each kind. The
errors without SQL need a fault or another API.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from gateway.errors import SPARK_CONDITIONS, SPARK_SQL_EXCEPTION, CanceledError, GatewayError, ParseError, SparkError
from gateway.messages.error_status import error_status
from tests.errors.client_programs import build_go_client, build_scala_client
from tests.errors.test_reference import reference

pytestmark = pytest.mark.slow

SETUP = ("create temporary table t as select 1 a", "create temporary table two as select 1 a, 2 b")
BY_SQL = {
    "LODGE_DUPLICATE_COLUMN": "select * from dfs.`same.jsonl`",
    "LODGE_INVALID_VALUE": "select * from dfs.`value.csv` with (header = true, schema = 'id int, s string')",
    "LODGE_MALFORMED_FILE": "select * from dfs.`broken.jsonl`",
    "LODGE_NO_FILES": "select * from dfs.`empty`",
    "LODGE_NO_READER": "select * from dfs.`a.unknown`",
    "LODGE_PARTITION_NAMES": "select * from dfs.`partitions`",
    "LODGE_PATH_REFUSED": "select * from dfs.`link.csv`",
    "LODGE_ROW_TOO_LONG": "select * from dfs.`long.csv` with (max_line_bytes = 4096)",
    "LODGE_SCAN_OPTIONS": "select * from dfs.`value.csv` with (nope = 1)",
    "LODGE_TYPE_CONFLICT": "select * from dfs.`conflict`",
    "LODGE_TYPE_NOT_SUPPORTED": "select * from dfs.`digits.arrows`",
    "LODGE_UNREADABLE_FILE": "select * from dfs.`pipe.csv`",
    "LODGE_AMBIGUOUS_COLUMN": "with t as (select 9 a) select dfs.tmp.t.a from t",
    "LODGE_EXECUTE_IMMEDIATE": "begin execute immediate 'drop view t'; end",
    "LODGE_STATEMENT_IN_SCRIPT": "begin insert into dfs.tmp.t values (1); end",
    "LODGE_VARIABLE_SUBSTITUTION": "drop view ${name}",
    "LODGE_VIEW_OVER_FILE": "begin create view v as select * from dfs.`value.csv`; end",
    "SCHEMA_NOT_FOUND": "create temporary table dfs.wk1.x as select 1 a",
    "TABLE_OR_VIEW_NOT_FOUND": "drop table dfs.tmp.nope",
    "COLUMN_ALREADY_EXISTS": "alter table two add column a int",
    "COLUMN_NOT_FOUND": "create temporary table x partition by (c1) as select 1 a",
    "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS": "create temporary table x (a, b) as select 1 a",
    "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS": "create temporary table x (a) as select 1 a, 2 b",
    "EXPECT_VIEW_NOT_TABLE.NO_ALTERNATIVE": "drop view t",
    "LODGE_COLUMN_NAME": "create temporary table x using orc as select 1 `a``b`",
    "LODGE_IMMUTABLE_SCHEMA": "create table dfs.x as select 1 a",
    "LODGE_NOT_FILE_BASED": "create temporary table default.x as select 1 a",
    "LODGE_NOT_TEMPORARY_WORKSPACE": "create temporary table dfs.x as select 1 a",
    "LODGE_PARTITION_VALUE": "create temporary table x partition by (p) as select 1 a, repeat('x', 300) p",
    "LODGE_STORAGE_FORMAT": "create temporary table x using delta as select 1 a",
    "LODGE_TABLE_OPTIONS": "create temporary table x options (path '/tmp/x') as select 1 a",
    "LODGE_TEMPORARY_TABLE_OPERATION": "alter table t drop column a",
    "LODGE_TEMPORARY_TABLE_USED": "create view v as select * from t",
    "LODGE_VIEW_IN_WORKSPACE": "create view dfs.v as select 1 a",
    "LODGE_WORKSPACE_TABLE": "insert into dfs.`value.csv` values (1)",
    "PARSE_SYNTAX_ERROR": "create temporary table x (a, b as select 1",
    "TABLE_OR_VIEW_ALREADY_EXISTS": "create temporary table t as select 2 a",
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": "alter table t alter column nope comment 'x'",
    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE": "create temporary table x using csv as select X'00' a",
}
BY_SQL_IN_ALL_CLIENTS = (
    "LODGE_NO_FILES",  # a scan, before Spark reads files
    "LODGE_INVALID_VALUE",  # a scan, while Spark reads files
    "LODGE_VIEW_IN_WORKSPACE",  # a statement
    "LODGE_STATEMENT_IN_SCRIPT",
    "PARSE_SYNTAX_ERROR",  # an exception of another class
    "TABLE_OR_VIEW_ALREADY_EXISTS",  # a condition of Spark
    "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",  # a condition of Spark with a subclass
)
BY_STATUS = [(condition, "status") for condition in sorted(reference())]
IN_PYSPARK = [*((condition, "sql") for condition in BY_SQL), *BY_STATUS]
IN_ALL_CLIENTS = [*((condition, "sql") for condition in BY_SQL_IN_ALL_CLIENTS), *BY_STATUS]


def create_error(condition):
    """Return an error with a condition, as the product creates it."""
    state, parameters = reference()[condition]
    if condition == "OPERATION_CANCELED":
        return CanceledError()
    if condition == "PARSE_SYNTAX_ERROR":
        return ParseError("Syntax error at or near 'x': a query was expected.")
    values = {name: f"the {name} of 'ä'" for name in parameters}
    if condition in SPARK_CONDITIONS:
        return SparkError(condition, "What happened, and what to do.", **values)
    return GatewayError(condition, state, "What happened to 'ä', and what to do.", values)


class ErrorServer(base_pb2_grpc.SparkConnectServiceServicer):
    """A Spark Connect server that fails with the condition in each statement."""

    def Config(self, request, context):  # noqa: N802 - Spark's name
        answer = base_pb2.ConfigResponse(session_id=request.session_id, server_side_session_id=request.session_id)
        operation = getattr(request.operation, request.operation.WhichOneof("op_type"))
        for key in operation.keys if hasattr(operation, "keys") else [pair.key for pair in operation.pairs]:
            answer.pairs.add(key=key, value="-1")
        return answer

    def ExecutePlan(self, request, context):  # noqa: N802 - Spark's name
        command = request.plan.command.sql_command
        condition = command.input.sql.query or command.sql or request.plan.root.sql.query
        context.abort(*self._with_trailers(error_status(create_error(condition), request.client_type), context))
        yield

    def ReleaseExecute(self, request, context):  # noqa: N802 - Spark's name
        return base_pb2.ReleaseExecuteResponse(session_id=request.session_id)

    def ReleaseSession(self, request, context):  # noqa: N802 - Spark's name
        return base_pb2.ReleaseSessionResponse(session_id=request.session_id)

    @staticmethod
    def _with_trailers(status, context):
        context.set_trailing_metadata(status.trailing)
        return status.code, status.details


@pytest.fixture(scope="module")
def error_server():
    server = grpc.server(ThreadPoolExecutor(4))
    base_pb2_grpc.add_SparkConnectServiceServicer_to_server(ErrorServer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"sc://127.0.0.1:{port}"
    server.stop(None)


def write_files(directory):
    """Write the files that the statements read."""
    texts = {
        "same.jsonl": '{"a":1,"A":2}\n',
        "value.csv": "id,s\n1,x\nno,y\n",
        "broken.jsonl": '{"a":1}\n{"a":\n',
        "a.unknown": "x",
        "long.csv": f"{'x' * 10_000}\n",
        "partitions/a=1/1.jsonl": '{"x":1}\n',
        "partitions/b=1/2.jsonl": '{"x":2}\n',
        "conflict/1.jsonl": '{"a":1}\n',
        "conflict/2.jsonl": '{"a":{"b":1}}\n',
    }
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (directory / "empty").mkdir()
    (directory / "link.csv").symlink_to("/etc/hostname")
    os.mkfifo(directory / "pipe.csv")
    digits = pa.array([Decimal("12345678901234567890123456789012345678901.5")], pa.decimal256(50, 1))
    with pa.ipc.new_stream(directory / "digits.arrows", pa.schema([("d", digits.type)])) as writer:
        writer.write_table(pa.table({"d": digits}))


@pytest.fixture(scope="module")
def statements(start_lodge, spark_server, error_server):
    """Return a function that finds the address and text of the statement of each error.

    The statements of the setup come first.
    """
    gateway = start_lodge(backend=spark_server)
    write_files(gateway.files)
    setup = {("setup", text): (gateway.address, text) for text in SETUP}

    def find(errors):
        return setup | {
            (condition, source): (gateway.address, BY_SQL[condition]) if source == "sql" else (error_server, condition)
            for condition, source in errors
        }

    return find


@pytest.fixture(scope="module")
def python_errors(statements):
    """Return the errors that PySpark raises, by condition and source."""
    sessions = {}
    shown = {}
    for key, (address, text) in statements(IN_PYSPARK).items():
        if address not in sessions:
            sessions[address] = SparkSession.builder.remote(address).create()
        try:
            sessions[address].sql(text).collect()
        except PySparkException as error:
            shown[key] = error
    for session in sessions.values():
        session.stop()
    return shown


def text_of(error):
    """Return the text of an error in PySpark.

    Omits the class that precedes the text of unknown exceptions.
    """
    return str(error).removeprefix(f"({SPARK_SQL_EXCEPTION}) ")


@pytest.mark.parametrize(("condition", "source"), IN_PYSPARK)
def test_pyspark_shows_text_condition_sql_state_and_parameters(python_errors, condition, source):
    error = python_errors[condition, source]
    state, parameters = reference()[condition]
    assert (error.getCondition(), error.getSqlState()) == (condition, state)
    assert text_of(error).startswith(f"[{condition}] ")
    assert str(error).endswith(f" SQLSTATE: {state}")
    assert len(str(error).splitlines()) == 1
    assert set(error.getMessageParameters()) <= parameters
    if condition in SPARK_CONDITIONS:
        assert set(error.getMessageParameters()) == parameters


@pytest.mark.parametrize("condition", sorted(BY_SQL))
def test_errors_show_no_directory_of_the_server(python_errors, condition):
    text = str(python_errors[condition, "sql"])
    assert "Traceback" not in text
    assert str(Path(__file__).parents[2]) not in text


@pytest.fixture(scope="module")
def scala_errors(statements):
    """Return what the Scala client shows: class, text, condition and SQLSTATE."""
    client = build_scala_client()
    cases = statements(IN_ALL_CLIENTS)
    return dict(zip(cases, client.run(list(cases.values())), strict=True))


@pytest.mark.parametrize(("condition", "source"), IN_ALL_CLIENTS)
def test_scala_client_shows_text_condition_and_sql_state(
    scala_errors, python_errors, spark_conditions, condition, source
):
    kind, text, shown_condition, shown_state = scala_errors[condition, source]
    python_error = python_errors[condition, source]
    state, _ = reference()[condition]
    assert (shown_condition, shown_state) == (condition, state), text
    if condition.startswith("LODGE_"):
        assert kind == "SparkException"
        assert text == text_of(python_error)
    else:
        parameters = python_error.getMessageParameters()
        _, template = spark_conditions(condition)
        filled = re.sub(r"<(\w+)>", lambda match: parameters[match[1]], template)
        assert f"[{condition}] {filled}".rstrip() in " ".join(text.split(" "))


@pytest.fixture(scope="module")
def go_errors(statements):
    """Return what the Go client shows: text, condition and SQLSTATE."""
    client = build_go_client()
    cases = statements(IN_ALL_CLIENTS)
    return dict(zip(cases, client.run(list(cases.values())), strict=True))


@pytest.mark.parametrize(("condition", "source"), IN_ALL_CLIENTS)
def test_go_client_shows_text_condition_and_sql_state(go_errors, python_errors, condition, source):
    state, _ = reference()[condition]
    assert go_errors[condition, source] == {
        "text": text_of(python_errors[condition, source]),
        "condition": condition,
        "sqlState": state,
    }
