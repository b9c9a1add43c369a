"""Finds the tables and files that a SQL text names, for the audit log.

Not guaranteed: the text is not parsed (:mod:`gateway.sql.table_walk`). A name may be missed, and a name that is not a
table may be reported. The result must not be used to decide what a client may access.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import DEFAULT_DIALECT, TokenKind, tokenize
from gateway.sql.parameters import Parameters
from gateway.sql.string_literals import read_string
from gateway.sql.table_walk import TableWalk
from workspace.name_comparison import comparable_name

_BEFORE_FILE = frozenset({"LOCATION", "INPATH", "PATH", "DIRECTORY", "JAR", "FILE", "ARCHIVE"})
FILE_FORMATS = frozenset(
    {"parquet", "csv", "json", "orc", "text", "avro", "xml", "binaryfile", "delta", "iceberg", "lodge"}
)


@dataclass(frozen=True, slots=True)
class NamedInText:
    """What a SQL text names.

    Attributes:
        keyword: The first word of the text in upper case, such as ``SELECT``.
        tables: The names of tables and views, with their parts joined by dots.
        files: The paths of files and directories.
    """

    keyword: str
    tables: Sequence[str]
    files: Sequence[str]


def find_named_objects(sql: str) -> NamedInText:
    """Return the tables and files that a SQL text names."""
    tokens = tokenize(sql)
    tables: dict[str, None] = {}
    files: dict[str, None] = {}
    names, _ = resolve_identifier_clauses(tokens, Parameters.of_statement(sql), DEFAULT_DIALECT)
    walk = TableWalk(names, with_views=True)
    for name in walk.names():
        is_function = name.in_from and walk.is_symbol(name.end, "(")
        if not name.is_table or is_function:
            continue
        parts = [token.value for token in names[name.position : name.end : 2]]
        if len(parts) == 2 and parts[0].lower() in FILE_FORMATS:
            files[parts[1]] = None
        else:
            tables[".".join(parts)] = None
    for token, following in itertools.pairwise(tokens):
        if token.keyword in _BEFORE_FILE and following.kind is TokenKind.STRING:
            files[read_string(following.value) or following.value] = None
    found = [table for table in tables if comparable_name(table) not in walk.common_tables]
    return NamedInText(next((token.keyword for token in tokens if token.keyword), ""), found, list(files))
