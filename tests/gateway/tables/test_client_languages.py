"""PySpark, Scala and Go receive the same rows for each statement of the reference."""

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql.connect import functions as sf
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import SQL
from pyspark.sql.connect.session import SparkSession

from tests.errors.client_programs import Answer, Write, build_go_client, build_scala_client
from tests.gateway.tables.client_script import CALLS, DIFFERENT_IN_EACH_SESSION, STATEMENTS, Rows
from workspace.files.session_records import FileSessionRecords

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "temporary-tables.md"
CALLS_OF_PYSPARK: Mapping[str, Callable[[DataFrame, Write], object]] = {
    "write.insertInto(name)": lambda frame, write: frame.write.insertInto(write.table),
    "write.insertInto(name, overwrite=True)": lambda frame, write: frame.write.insertInto(write.table, overwrite=True),
    'write.mode("append").saveAsTable(name)': lambda frame, write: frame.write.mode("append").saveAsTable(write.table),
    'write.mode("overwrite").saveAsTable(name)': (
        lambda frame, write: frame.write.mode("overwrite").saveAsTable(write.table)
    ),
    "writeTo(name).append()": lambda frame, write: frame.writeTo(write.table).append(),
    "writeTo(name).overwritePartitions()": lambda frame, write: frame.writeTo(write.table).overwritePartitions(),
    "writeTo(name).overwrite(condition)": (
        lambda frame, write: frame.writeTo(write.table).overwrite(sf.expr(write.condition))
    ),
    "writeTo(name).createOrReplace()": lambda frame, write: frame.writeTo(write.table).createOrReplace(),
    "mergeInto(name, condition)…merge()": lambda frame, write: (
        frame.mergeInto(write.table, sf.expr(write.condition)).whenMatched().updateAll().merge()
    ),
    "writeTo(name).replace()": lambda frame, write: frame.writeTo(write.table).replace(),
}

NOTATION = re.compile(r", …|'[^']*'(?:\|[A-Z]+)?|[A-Z]+(?:\|[A-Z]+)*|dfs|tmp|[a-z]+|[\[\]().…| =]")
SYMBOLS = {
    **{"[": "(?:", "]": ")?", "(": r"\(", ")": r"\)", ".": r"\.", "…": ".*", ", …": ".*", " ": r"\s*"},
    **{"|": "|", "=": "=", "dfs": "dfs", "tmp": "tmp"},
}
"""The notation of statements in the reference, and the regular expressions of its symbols and fixed names."""


def send_command(spark: SparkSession, text: str) -> Answer:
    frame = spark.sql(text)
    return Answer(columns_of(frame.schema), [tuple(row) for row in frame.collect()])


def send_root(spark: SparkSession, text: str) -> Answer:
    """Send a statement as the root of a plan, as the Swift client does."""
    plan = DataFrame(SQL(text), spark)._plan.to_proto(spark.client)
    table, schema, _ = spark.client.to_table(plan, {})
    return Answer(columns_of(schema), [tuple(row.values()) for row in table.to_pylist()])


def columns_of(schema) -> Sequence[tuple[str, str]]:
    return [(field.name, field.dataType.jsonValue()) for field in schema.fields]


def run_in_pyspark(send: Callable[[SparkSession, str], Answer]):
    """Return a function that runs a script with PySpark at a connection string."""

    def run(remote: str, script: Sequence[str | Write]) -> Sequence[Answer]:
        spark = SparkSession.builder.remote(remote).create()
        try:
            return [send_write(spark, each) if isinstance(each, Write) else send(spark, each) for each in script]
        finally:
            spark.client.close()

    return run


def send_write(spark: SparkSession, write: Write) -> Answer:
    CALLS_OF_PYSPARK[write.call](spark.sql(write.query), write)
    return Answer([], [])


CLIENTS = {
    "command": lambda: run_in_pyspark(send_command),
    "root": lambda: run_in_pyspark(send_root),
    "scala": lambda: build_scala_client().answers,
    "go": lambda: build_go_client().answers,
}


@pytest.fixture(scope="module")
def answers(writable):
    """Return a function that runs a script once with a client, and returns its answers and the tables afterwards."""
    known = {}

    def run(client: str, script: Sequence[tuple[str | Write, Rows | None]]) -> tuple[Sequence[object], object]:
        key = (client, script)
        if key not in known:
            user = f"{client}-{uuid.uuid4()}"
            run_script = CLIENTS[client]()
            received = run_script(f"{writable.address}/;user_id={user}", [statement for statement, _ in script])
            found = [(statement, *comparable(answer)) for (statement, _), answer in zip(script, received, strict=True)]
            known[key] = found, tables_of(writable, user)
        return known[key]

    return run


def tables_of(gateway, user: str) -> Sequence[object]:
    """Return what the session record of a user contains about tables, except what differs in each session."""
    (record,) = (each.record for each in FileSessionRecords(gateway.root).list() if each.record.principal == user)
    return [
        (table.name, table.state, table.rows, table.schema, table.partition_columns, table.properties, table.writes)
        for table in record.tables
    ]


def expected_rows(script: Sequence[tuple[object, Rows | None]]) -> Sequence[tuple[object, Rows]]:
    return [(statement, list(rows)) for statement, rows in script if rows is not None]


def comparable(answer: Answer) -> tuple[object, object]:
    """Return the columns, and the values that are the same in two sessions."""
    kept = [index for index, (name, _) in enumerate(answer.columns) if name not in DIFFERENT_IN_EACH_SESSION]
    return answer.columns, [tuple(row[index] for index in kept) for row in answer.rows]


def cells(heading: str) -> Sequence[str]:
    """Return the first cells of the table in the reference whose first heading is given."""
    _, _, rest = REFERENCE.read_text().partition(f"| {heading} | ")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [re.split(r"(?<!\\) \| ", line.removeprefix("| "))[0].replace("\\|", "|") for line in lines]


def forms(cell: str) -> Sequence[re.Pattern[str]]:
    """Return expressions for the forms of a statement in a cell of the reference."""
    found = re.findall(r"`([^`]+)`", cell)
    if not cell.startswith("`"):
        found = [f"… {clause} …" for clause in found]
    return [expression(form if " " in form else f"{form} …") for form in found]


def expression(form: str) -> re.Pattern[str]:
    """Translate a form: a word in capitals is a keyword, and one in small letters stands for any text."""
    return re.compile(NOTATION.sub(lambda token: translate(token[0]), form), re.IGNORECASE | re.DOTALL)


def translate(token: str) -> str:
    if token in SYMBOLS:
        return SYMBOLS[token]
    if token.startswith("'"):
        _, _, alternative = token.rpartition("'")
        return f"(?:'.*'{alternative})"
    if token.islower():
        return ".+"
    return f"(?:{token})"


def test_script_contains_each_statement_of_the_reference():
    statements = [statement for statement, _ in STATEMENTS]
    missing = [
        (cell, form.pattern)
        for cell in cells("statement")
        for form in forms(cell)
        if not any(map(form.fullmatch, statements))
    ]
    assert missing == []


def test_script_contains_each_call_of_the_reference():
    calls = {statement.call for statement, _ in CALLS if isinstance(statement, Write)}
    assert {call for cell in cells("call") for call in re.findall(r"`([^`]+)`", cell)} - calls == set()


@pytest.mark.slow
@pytest.mark.parametrize("script", [STATEMENTS, CALLS], ids=["statements", "calls"])
def test_python_client_receives_the_rows_of_each_statement(answers, script):
    found, _ = answers("command", script)
    without_names = [(statement, rows) for statement, _, rows in found]
    expected = expected_rows(script)
    assert [each for each in without_names if each[0] in dict(expected)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("client", ["root", "scala", "go"])
def test_each_statement_has_the_same_answer_and_effect_in_each_client(answers, client):
    (expected, tables), (found, tables_afterwards) = answers("command", STATEMENTS), answers(client, STATEMENTS)
    assert found == expected
    assert tables_afterwards == tables


@pytest.mark.slow
def test_each_call_has_the_same_effect_in_the_scala_client(answers):
    """The Go client has none of these calls."""
    assert answers("scala", CALLS) == answers("command", CALLS)
