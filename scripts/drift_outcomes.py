"""Comparison of the rows that a system has read with the expected rows of a case.

A doubtful result counts as correct.

Guarantees:

1. A value is correct in any type that preserves the value:

   - a number as another number or as text, and true as 1
   - text as the value that it represents, or as bytes
   - a date as midnight of this day, and a timestamp in any time zone (UTC if it has none)
   - a map as a struct
   - an empty field of CSV as null
2. A result is wrong if a value is missing or different, if a value is in a column with another name (ignoring case), or
   if columns are missing or added. Text with leading zeros is not equal to the number without leading zeros. If two
   names of one file are equal when case is ignored, they may remain separate columns.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from tests.drift.cases import Case

Row = Mapping[str, Any]

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def is_right(table: pa.Table, case: Case) -> bool:
    """Return whether a table contains the expected rows of a case, in any order."""
    expected, found = case.rows, table.to_pylist()
    if expected is None or len(found) != len(expected):
        return False
    if case.types.keys() == {"columns"}:
        return _are_same(expected, [{"columns": _fields(row)} for row in found])
    names = {name for row in expected for name in row} | set(case.types)
    if _has_letter_cases(case) and names == set(table.schema.names):
        return _are_same([_with_exact_names(row) for row in expected], [_with_exact_names(row) for row in found])
    folded = {name.casefold() for name in names}
    return sorted(map(str.casefold, table.schema.names)) == sorted(folded) and _are_same(expected, found)


def _has_letter_cases(case: Case) -> bool:
    """Return whether a file contains names that are equal when case is ignored."""
    by_file = ({name for row in file.rows or () for name in row} for file in case.files)
    return any(len({name.casefold() for name in names}) < len(names) for names in by_file)


def _with_exact_names(row: Row) -> Row:
    """Encode names so that a comparison is case-sensitive."""
    return {name.encode().hex(): value for name, value in row.items()}


def _fields(row: Row) -> list[Any]:
    """Return the fields of a row without names, and without missing fields at the end.

    Some systems return these fields as an array.
    """
    values = list(row.values())
    if len(values) == 1 and isinstance(values[0], list):
        return values[0]
    while values and values[-1] is None:
        values.pop()
    return values


def _are_same(expected: Sequence[Any], found: Sequence[Any]) -> bool:
    left = list(found)
    for one in expected:
        match = next((index for index, other in enumerate(left) if _is_same(one, other)), None)
        if match is None:
            return False
        del left[match]
    return not left


def _is_same(expected: Any, found: Any) -> bool:
    if isinstance(expected, Mapping | list):
        return (_is_same_list if isinstance(expected, list) else _is_same_struct)(expected, found)
    if expected is None or found is None:
        return found is None and expected in (None, "")
    if isinstance(expected, bytes) or isinstance(found, bytes):
        return bool(_bytes_of(expected) == _bytes_of(found))
    if isinstance(expected, str):
        return _means(expected, found)
    if isinstance(found, str):
        return _means(found, expected)
    return _is_same_scalar(expected, found)


def _is_same_struct(expected: Row, found: Any) -> bool:
    if isinstance(found, list) and all(isinstance(one, tuple) for one in found):
        found = dict(found)
    found = _parse_json(found)
    if found is None:
        found = {}
    if not isinstance(found, Mapping):
        return False
    one, other = ({name.casefold(): value for name, value in row.items()} for row in (expected, found))
    return all(_is_same(one.get(name), _empty_as_null(other.get(name))) for name in one.keys() | other.keys())


def _empty_as_null(value: Any) -> Any:
    """Replace a struct of nulls with null."""
    is_empty = isinstance(value, Mapping) and all(_empty_as_null(one) is None for one in value.values())
    return None if is_empty else value


def _is_same_list(expected: list[Any], found: Any) -> bool:
    if expected and all(isinstance(one, tuple) for one in expected):
        return _is_same_struct(dict(expected), found)
    found = _parse_json(found)
    return isinstance(found, list) and len(found) == len(expected) and all(map(_is_same, expected, found))


def _parse_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _means(text: str, value: Any) -> bool:
    """Return whether a string represents a value."""
    match value:
        case str():
            return text == value
        case bool():
            return text.lower() == str(value).lower()
        case int() | float() | Decimal():
            return bool(_NUMBER.fullmatch(text)) and Decimal(text) == Decimal(str(value))
        case date():
            return _is_same_time(text, value)
    return False


def _is_same_time(text: str, value: date) -> bool:
    try:
        meant = datetime.strptime(text, "%d/%m/%Y") if "/" in text else datetime.fromisoformat(text)
    except ValueError:
        return False
    return _is_same_scalar(meant, value)


def _bytes_of(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _is_same_scalar(expected: Any, found: Any) -> bool:
    if isinstance(found, bool):
        return expected is found
    if isinstance(expected, date) and isinstance(found, date):
        return _to_utc(expected) == _to_utc(found)
    try:
        return Decimal(str(int(expected) if isinstance(expected, bool) else expected)) == Decimal(str(found))
    except InvalidOperation:
        return bool(expected == found)


def _to_utc(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value if value.tzinfo else value.replace(tzinfo=UTC)
