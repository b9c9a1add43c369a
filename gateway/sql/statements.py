"""The statements that may concern a temporary table, found in SQL text without parsing it.

Why it exists: each statement of each client passes by here, so an ordinary one costs a look at its first word, and only
what may be about a temporary table is read further. What is not for Lodge is left to Spark, with Spark's own errors.
"""

from gateway.sql.changes import changes
from gateway.sql.lexer import blanked
from gateway.sql.recognised import (
    AlterRelation,
    CacheTableAs,
    Change,
    ChangeKind,
    CreateTable,
    CreateTemporaryTable,
    CreateView,
    DropTable,
    DropView,
    ExecuteImmediate,
    Explain,
    HasQuery,
    IdentifierClause,
    Insert,
    MergeOrUpdate,
    ModificationKind,
    Name,
    RelationKind,
    Script,
    ShowCreateTable,
    ShowTables,
    ShowTemporaryTables,
    Span,
    Statement,
    TableName,
    TruncateTable,
)
from gateway.sql.statement_error import Position, StatementError

__all__ = [
    "AlterRelation",
    "CacheTableAs",
    "Change",
    "ChangeKind",
    "CreateTable",
    "CreateTemporaryTable",
    "CreateView",
    "DropTable",
    "DropView",
    "ExecuteImmediate",
    "Explain",
    "HasQuery",
    "IdentifierClause",
    "Insert",
    "MergeOrUpdate",
    "ModificationKind",
    "Name",
    "Position",
    "RelationKind",
    "Script",
    "ShowCreateTable",
    "ShowTables",
    "ShowTemporaryTables",
    "Span",
    "Statement",
    "StatementError",
    "TableName",
    "TruncateTable",
    "changes",
    "query_only",
    "recognise",
]


def recognise(sql: str, *, double_quoted_identifiers: bool = False) -> Statement | None:
    """The statement if it may concern a temporary table; None if it is for Spark.

    Args:
        sql: The text.
        double_quoted_identifiers: Whether the session reads ``"a"`` as a name.

    Raises:
        StatementError: It is about a temporary table, but a clause is malformed or not supported.
    """
    raise NotImplementedError


def query_only(sql: str, statement: HasQuery) -> str:
    """The query alone (after ``EXPLAIN``: what explains it), at its own place.

    All else is blank, so that positions in Spark's messages stay right; after the query's end is nothing.

    Raises:
        ValueError: The statement has no query.
    """
    return sql[:0] + blanked("")
