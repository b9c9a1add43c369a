"""Parses ``USING source OPTIONS (…)``, which defines a view over a data source.

Source: [spark-sql-grammar tableProvider], [spark-sql-grammar propertyList].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.sql.lexer import Token
from gateway.sql.string_literals import write_string
from gateway.sql.table_options import parse_property_list


@dataclass(frozen=True, slots=True)
class UsingClause:
    """The options of a data source in a ``USING`` clause.

    Attributes:
        values: The options, as written in the text.
        start: Offset of the opening bracket.
        end: Offset after the closing bracket.
    """

    values: Mapping[str, str]
    start: int
    end: int


def find_using_clauses(tokens: Sequence[Token], source: str) -> Sequence[UsingClause]:
    """Return the ``USING`` clauses for a data source that have options.

    The name of the data source is compared without regard to case.

    Raises:
        TableOptionsError: If the options of a clause are malformed.
    """
    clauses = []
    for index, token in enumerate(tokens[:-3]):
        name, options, bracket = tokens[index + 1 : index + 4]
        is_source = token.keyword == "USING" and name.is_name and name.value.lower() == source
        if is_source and options.keyword == "OPTIONS" and bracket.is_symbol("("):
            parsed = parse_property_list(tokens, index + 3)
            clauses.append(UsingClause(parsed.values, bracket.start, parsed.end))
    return clauses


def write_options(values: Mapping[str, str]) -> str:
    """Return an option list in brackets for the given values."""
    return f"({', '.join(f'{write_string(key)} {write_string(value)}' for key, value in values.items())})"
