"""Rules that accept differences which follow from the rewriting of a statement.

Lodge must return what Spark returns for an unchanged statement, so the first way has only one rule. A run prints how
many differences each rule accepts.
"""

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.spark_sql_tests.comparison import Kind
from tests.spark_sql_tests.differences import Difference
from tests.spark_sql_tests.outcomes import Failure, Result
from tests.spark_sql_tests.ways import AS_IS

_CREATED = "struct<Fragment:string,Number of records written:bigint>"
_DROPPED = "struct<ok:boolean,summary:string>"
_LISTED = "struct<namespace:string,tableName:string,isTemporary:boolean>"
_SCHEMA_PREFIX = "spark_catalog.default."
_OF_CATALOG = re.compile(r"\(?'(Catalog|Database|Created Time|Created By|Type|Location|Partition Statistics)'")
_NO_COLUMNS = "struct<>"
_SPARK_REFUSES = ("NOT_SUPPORTED_CHANGE_COLUMN", "UNSUPPORTED_FEATURE.TABLE_OPERATION", "_LEGACY_ERROR_TEMP_0035")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        reason: Why the outcomes differ.
        accepts: Returns whether the rule accepts a difference.
    """

    reason: str
    accepts: Callable[[Difference], bool]


def find_rule(difference: Difference) -> Rule | None:
    """Return the rule that accepts a difference. None if no rule accepts it."""
    rules = [_MISSING] if difference.way == AS_IS else [_MISSING, *_RULES]
    return next((rule for rule in rules if rule.accepts(difference)), None)


def _is_answer_to_missing_table(difference: Difference) -> bool:
    return _is_answer_of_lodge(difference) and "was not found." in str(difference.found)


def _is_answer_of_lodge(difference: Difference) -> bool:
    expected, found = difference.expected, difference.found
    if not (isinstance(expected, Result) and isinstance(found, Result)):
        return False
    answer = {"create": _CREATED, "drop": _DROPPED}.get(_first_word(difference))
    return expected.schema == _NO_COLUMNS and found.schema == answer and len(found.rows) == 1


def _is_plan(difference: Difference) -> bool:
    return difference.kind is Kind.ROWS and _first_word(difference) == "explain"


def _first_word(difference: Difference) -> str:
    matched = re.match(r"\s*(\w+)", difference.statement)
    return matched[1].lower() if matched else ""


def _names_full_table(difference: Difference) -> bool:
    expected, found = difference.expected, difference.found
    return (
        isinstance(expected, Result)
        and isinstance(found, Result)
        and expected.schema.replace(_SCHEMA_PREFIX, "") == found.schema
        and sorted(row.replace(_SCHEMA_PREFIX, "") for row in expected.rows) == sorted(found.rows)
        and difference.kind is not Kind.ORDER
    )


def _lists_table_as_view(difference: Difference) -> bool:
    expected, found = difference.expected, difference.found
    return (
        isinstance(expected, Result)
        and isinstance(found, Result)
        and difference.kind is Kind.ROWS
        and found.schema == _LISTED
        and [ast.literal_eval(row)[1] for row in expected.rows] == [ast.literal_eval(row)[1] for row in found.rows]
    )


def _shows_creation(difference: Difference) -> bool:
    return difference.kind is Kind.ROWS and re.match(r"(?i)\s*show\s+create\b", difference.statement) is not None


def _describes_without_locations(difference: Difference) -> bool:
    expected, found = difference.expected, difference.found
    return (
        _first_word(difference) in {"desc", "describe"}
        and isinstance(expected, Result)
        and isinstance(found, Result)
        and expected.schema == found.schema
        and [row for row in expected.rows if not _OF_CATALOG.match(row)]
        == [row for row in found.rows if not _OF_CATALOG.match(row)]
    )


def _refuses_change_of_columns(difference: Difference) -> bool:
    expected, found = difference.expected, difference.found
    return (
        isinstance(expected, Failure)
        and isinstance(found, Failure)
        and expected.condition in _SPARK_REFUSES
        and found.condition == "LODGE_TEMPORARY_TABLE_OPERATION"
    )


def _refuses_permanent_view(difference: Difference) -> bool:
    expected, found = difference.expected, difference.found
    return (
        isinstance(expected, Failure)
        and isinstance(found, Failure)
        and (expected.condition, found.condition) == ("INVALID_TEMP_OBJ_REFERENCE", "LODGE_TEMPORARY_TABLE_USED")
        and expected.sql_state == found.sql_state
    )


_MISSING = Rule("DROP TABLE IF EXISTS of a missing table returns a row.", _is_answer_to_missing_table)
_RULES: Sequence[Rule] = (
    Rule("CREATE and DROP of a temporary table return a row.", _is_answer_of_lodge),
    Rule("A plan shows the temporary view and the files of a temporary table.", _is_plan),
    Rule("SHOW TABLES lists a temporary table as a temporary view, without a schema.", _lists_table_as_view),
    Rule("A name of a column or a message contains the schema of a permanent table.", _names_full_table),
    Rule("SHOW CREATE TABLE shows a statement that creates a temporary table.", _shows_creation),
    Rule("DESCRIBE shows no location, and no catalog of Spark.", _describes_without_locations),
    Rule("Lodge and Spark refuse the same changes of columns with different conditions.", _refuses_change_of_columns),
    Rule("A permanent view cannot read a temporary table. Lodge has a condition of its own.", _refuses_permanent_view),
)
