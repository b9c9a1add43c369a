"""The clause ``USING source OPTIONS (…)`` of a view or table that Spark reads by a data source.

Source: Spark: SqlBaseParser.g4 (tableProvider, OPTIONS propertyList).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token
from gateway.sql.parameters import string_literal
from gateway.sql.table_options import parse_property_list


@dataclass(frozen=True, slots=True)
class UsingClause:
    """The options of one source.

    Attributes:
        values: By key, as written.
        start: Offset of the opening bracket.
        end: Offset after the closing bracket.
    """

    values: Mapping[str, str]
    start: int
    end: int


def find_using_clauses(tokens: Sequence[Token], source: str) -> Sequence[UsingClause]:
    """All clauses of that source, named in any letter case, that have options.

    Raises:
        TableOptionsError.
    """
    found = []
    for index, token in enumerate(tokens[:-3]):
        name, options, bracket = tokens[index + 1 : index + 4]
        is_source = token.keyword == "USING" and name.is_name and name.value.lower() == source
        if is_source and options.keyword == "OPTIONS" and bracket.is_symbol("("):
            values = parse_property_list(tokens, index + 3)
            found.append(UsingClause(values.values, bracket.start, values.end))
    return found


def write_options(values: Mapping[str, str]) -> str:
    """The options in brackets, as Spark reads them back."""
    return f"({', '.join(f'{string_literal(key)} {string_literal(value)}' for key, value in values.items())})"
