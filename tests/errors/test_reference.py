"""The reference page, the code and Spark agree about every error condition."""

import ast
import functools
import json
import re
import zipfile
from pathlib import Path

import pyspark
import pytest

import engine.readers.reader_errors
import engine.readers.registry
import engine.spark  # noqa: F401 - defines conditions
import gateway.errors
from engine.errors import EngineError
from gateway.errors import SPARK_CONDITIONS
from gateway.operations.drain import GatewayStoppingError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
ROW = re.compile(r"\| `(?P<condition>[A-Z_.]+)` \| (?P<sql_state>\w{5}) \| .*? \| (?P<parameters>.*?) ?\| .*\|")


@functools.cache
def reference():
    """Return the SQLSTATE and the parameters of each condition on the page."""
    rows = [match for line in PAGE.read_text().splitlines() if (match := ROW.fullmatch(line))]
    found = {row["condition"]: (row["sql_state"], frozenset(re.findall(r"`(\w+)`", row["parameters"]))) for row in rows}
    assert len(found) == len(rows), "a condition is on the page twice"
    return found


def raised_errors():
    """Yield each error that the gateway raises.

    The items are the condition, the SQLSTATE, the parameters and the place in the source.
    """
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            if node.func.id in {"GatewayError", "SparkError"}:
                for condition in conditions(node.args[0], path):
                    state = node.args[1].value if node.func.id == "GatewayError" else None
                    yield condition, state, {keyword.arg for keyword in node.keywords}, f"{path.name}:{node.lineno}"


def conditions(argument, path):
    """Return the possible conditions of an error.

    The argument is a constant, a text with a kind in it, a constant of ``gateway.errors``, or a variable of the module.
    """
    if isinstance(argument, ast.Constant):
        return [argument.value]
    if isinstance(argument, ast.JoinedStr):
        before, after = (part.value for part in argument.values if isinstance(part, ast.Constant))
        return [f"{before}{kind}{after}" for kind in ("NOT_ENOUGH", "TOO_MANY")]
    if isinstance(argument, ast.Name) and argument.id.isupper():
        return [getattr(gateway.errors, argument.id)]
    return re.findall(r'"(LODGE_STATEMENT_IN_\w+|LODGE_EXECUTE_IMMEDIATE)"', path.read_text())


def engine_errors():
    pending = [EngineError]
    while pending:
        error = pending.pop()
        pending += error.__subclasses__()
        if error.__module__.startswith("engine."):
            yield error


def test_page_lists_exactly_the_conditions_of_the_code():
    raised = {condition for condition, *_ in raised_errors()} | {error.condition for error in engine_errors()}
    raised |= {"PARSE_SYNTAX_ERROR", "OPERATION_CANCELED", "TABLE_OR_VIEW_ALREADY_EXISTS"}  # raised by their classes
    raised.add(GatewayStoppingError().condition)
    assert raised == set(reference())


def test_every_condition_has_one_sql_state():
    states = [(condition, state, place) for condition, state, _, place in raised_errors() if state is not None]
    states += [(error.condition, error.sql_state, error.__name__) for error in engine_errors()]
    for condition, state, place in states:
        assert reference()[condition][0] == state, (condition, place)


def test_errors_with_spark_conditions_have_template_parameters():
    for condition, state, parameters, place in raised_errors():
        if state is None:
            assert parameters == SPARK_CONDITIONS[condition].parameters, (condition, place)


def test_spark_conditions_have_sparks_sql_states_and_parameters(spark_conditions):
    for condition, ours in SPARK_CONDITIONS.items():
        state, template = spark_conditions(condition)
        assert ours == (state, frozenset(re.findall(r"<(\w+)>", template))), condition
        assert reference()[condition] == ours


@pytest.mark.parametrize("condition", sorted(reference()))
def test_sql_state_is_known_to_spark(condition):
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar"))
    with zipfile.ZipFile(jar) as archive:
        states = json.loads(archive.read("error/error-states.json"))
    assert reference()[condition][0] in states
