"""The three ways in which the files run: as they are, and with views or tables turned into temporary tables.

A rewriter sees the statements of a file in their order, because what a name means depends on the statements before.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

from tests.spark_sql_tests.sql_files import SqlFile

AS_IS, VIEWS, TABLES = "as-is", "views", "tables"

_NAME = r"(?P<name>identifier\s*\(\s*'\w+'\s*\)|`[^`]+`|(?!identifier\b)\w+)"
_NAME_AT_END = rf"{_NAME}(?![\w.`])"
_CREATE_TEMPORARY_VIEW = re.compile(
    rf"(?is)(?P<begin>\s*create\s+(?:or\s+replace\s+)?)temp(?:orary)?\s+view(?P<end>\s+{_NAME_AT_END})"
    r"(?=\s*(?:\((?:(?!\bcomment\b)[^()])*\)\s*)?(?:(?:comment|tblproperties)\b.*?\s)?\s*as\b)"
)
_CREATE_PERMANENT = re.compile(
    r"(?i)\s*(?:create\s+(?:or\s+replace\s+)?(?:(?:global\s+temp(?:orary)?\s+)?view|function)|alter\s+view)\b"
)
_DROP_VIEW = re.compile(rf"(?is)(?P<begin>\s*drop\s+)view(?P<end>\s+(?:if\s+exists\s+)?{_NAME_AT_END}\s*)\Z")
_CREATE_TABLE = re.compile(
    rf"(?is)(?P<begin>\s*create\s+)(?P<end>table\s+(?:if\s+not\s+exists\s+)?{_NAME_AT_END}(?P<rest>.*))"
)
_CREATE_SCHEMA = re.compile(r"(?is)\s*create\s+(?:schema|database|namespace)\s+(?:if\s+not\s+exists\s+)?(\w+)")
_CHANGED_ROWS = re.compile(r"(?i)\b(?:update|delete\s+from|merge\s+into)\s+`?(\w+)")
_FORMAT = re.compile(r"(?is)\busing\s+(\w+)")
_STORAGE_CLAUSE = re.compile(r"(?is)\b(?:location|clustered\s+by|cluster\s+by|stored\s+as|row\s+format)\b")
_QUERY = re.compile(r"(?is)\bas\s*(?:select|with|values|from|table|\()")


class Rewriter(Protocol):
    """Rewrites the statements of one file in their order."""

    def rewrite(self, statement: str) -> str:
        """Return the statement, rewritten if it is about a table or view that this way replaces."""

    def forget(self, statement: str) -> None:
        """Leave the object as it is that a statement creates."""


class _Unchanged:
    """The rewriter of the first way."""

    def __init__(self, _: Sequence[str]) -> None:
        pass

    def rewrite(self, statement: str) -> str:
        return statement

    def forget(self, statement: str) -> None:
        pass


class _ViewsAsTables:
    """Turns temporary views of a query into temporary tables, unless they have a default collation or comments."""

    def __init__(self, _: Sequence[str]) -> None:
        self._names = set[str]()

    def rewrite(self, statement: str) -> str:
        if matched := _CREATE_TEMPORARY_VIEW.match(statement):
            self._names.add(_plain(matched["name"]))
            return f"{matched['begin']}TEMPORARY TABLE{matched['end']}{statement[matched.end() :]}"
        if (matched := _DROP_VIEW.match(statement)) and _plain(matched["name"]) in self._names:
            return f"{matched['begin']}TABLE{matched['end']}"
        return statement

    def forget(self, statement: str) -> None:
        if matched := _CREATE_TEMPORARY_VIEW.match(statement):
            self._names.discard(_plain(matched["name"]))


class _TablesAsTemporaryTables:
    """Turns tables in Parquet files into temporary tables.

    A table remains as it is if the file also uses its name with a schema, if a permanent view or function
    reads it, or if a statement changes its rows, which Spark refuses for tables in files.
    """

    def __init__(self, statements: Sequence[str]) -> None:
        self._excluded = _find_qualified_names(statements) | _find_words_of_permanent_objects(statements)
        self._excluded |= {name.lower() for each in statements for name in _CHANGED_ROWS.findall(each)}

    def rewrite(self, statement: str) -> str:
        matched = _CREATE_TABLE.match(statement)
        if matched is None or not _is_in_parquet_files(matched["rest"]) or _plain(matched["name"]) in self._excluded:
            return statement
        return f"{matched['begin']}TEMPORARY {matched['end']}"

    def forget(self, statement: str) -> None:
        pass


WAYS: Mapping[str, Callable[[Sequence[str]], Rewriter]] = {
    AS_IS: _Unchanged,
    VIEWS: _ViewsAsTables,
    TABLES: _TablesAsTemporaryTables,
}
"""A function that creates a rewriter for the statements of a file, by the name of the way."""

NOT_REWRITTEN: Mapping[tuple[str, str], str] = {
    (VIEWS, "parse-query-correctness-old-behavior.sql"): "sets how Spark parses the stored text of a view",
}
"""Files that do not run in a way, with the reason."""


def changes_statements(way: str, file: SqlFile) -> bool:
    """Return whether a way changes a statement of a file, and the file runs in this way."""
    if (way, file.name) in NOT_REWRITTEN:
        return False
    rewriter = WAYS[way](file.statements)
    return any(rewriter.rewrite(statement) != statement for statement in file.statements)


def _plain(name: str) -> str:
    """Return the name in lower case, without quotes and ``IDENTIFIER``."""
    return name.rpartition("(")[2].strip(" `'\")").lower()


def _find_qualified_names(statements: Sequence[str]) -> Set[str]:
    """Return the names that a statement uses together with the name of a schema."""
    schemas = {"default", "spark_catalog"}
    schemas |= {matched[1].lower() for each in statements if (matched := _CREATE_SCHEMA.match(each))}
    schema = f"`?(?:{'|'.join(schemas)})`?"
    qualified = re.compile(
        rf"(?i)(?<![\w`])(?:{schema}\s*\.\s*)+`?(\w+)|\b(?:in|from)\s+(\w+)\s+(?:in|from)\s+{schema}"
    )
    return {name.lower() for each in statements for names in qualified.findall(each) for name in names} - schemas


def _find_words_of_permanent_objects(statements: Sequence[str]) -> Set[str]:
    """Return all words of the definitions of functions, and of permanent and global views."""
    creations = [each for each in statements if _CREATE_PERMANENT.match(each)]
    return {word.lower() for creation in creations for word in re.findall(r"\w+", creation)}


def _is_in_parquet_files(rest: str) -> bool:
    """Return whether a table is in Parquet files, by the text after its name."""
    definition = rest[: query.start()] if (query := _QUERY.search(rest)) else rest
    named = _FORMAT.search(definition)
    return (named is None or named[1].lower() == "parquet") and not _STORAGE_CLAUSE.search(definition)
