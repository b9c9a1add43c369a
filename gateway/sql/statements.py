"""The statements that may concern a temporary table, as values.

A span is the offset of its first character and the offset after its last character. The span of a query ends with the
statement, without the semicolons at the end of the text.

Source: [temporary-tables §5.1], [spark-sql-grammar statement].
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a table or view.

    Attributes:
        parts: Its parts, without quotes; at least one.
        start: Offset of its first character.
        end: Offset after its last character.
    """

    parts: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IdentifierClause:
    """A name that Spark computes: ``IDENTIFIER(argument)``.

    Also a longer name of which Spark computes a part. Its argument is the whole name.
    :func:`gateway.sql.identifier_clauses.evaluate_identifier_clause` returns the name if it is known before.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character.
        argument_start: Offset of the argument's first character.
        argument_end: Offset after the argument's last character.
    """

    start: int
    end: int
    argument_start: int
    argument_end: int

    @property
    def parts(self) -> tuple[str, ...]:
        """No parts: only Spark knows them."""
        return ()


TableName = Name | IdentifierClause


@dataclass(frozen=True, slots=True, kw_only=True)
class _CreateStatement:
    """What ``CREATE TEMPORARY TABLE`` and ``CREATE TABLE`` have in common.

    Attributes:
        name: The name of the table.
        if_not_exists: Whether the statement has ``IF NOT EXISTS``.
        columns: The columns without types; None if there are none.
        storage_format: The format after ``USING``, as written; None if there is none.
        partition_columns: The columns after ``PARTITION BY``.
        options: The options by key, as written.
        query_span: From right after ``AS`` to the end of the query; None if there is no query.
        definition_span: The columns with types, without their brackets; None if there are none.
        like: The table or view after ``LIKE``; None if there is none.
    """

    name: TableName
    if_not_exists: bool
    columns: tuple[str, ...] | None = None
    storage_format: str | None = None
    partition_columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    query_span: Span | None = None
    definition_span: Span | None = None
    like: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryTable(_CreateStatement):
    """``CREATE TEMPORARY TABLE [IF NOT EXISTS] name``, in one of three forms.

    Exactly one of ``query_span``, ``definition_span`` and ``like`` is set:

    - ``[(columns)] [USING format] [PARTITION BY (columns)] [OPTIONS (…)] AS query``
    - ``(columns with types) [USING format] [PARTITION BY (columns)] [OPTIONS (…)]``
    - ``LIKE source [USING format]``
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(_CreateStatement):
    """``CREATE TABLE [IF NOT EXISTS] name …``.

    The name has two or more parts, or is an ``IDENTIFIER(…)``.

    Attributes:
        has_other_clauses: Whether the statement is something else than ``CREATE TABLE name [(columns)] [USING format]
            [PARTITION BY (columns)] [OPTIONS (…)] AS query``, or is malformed. The attributes may then lack the
            clauses that come after the unexpected one.
    """

    has_other_clauses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTable:
    """``DROP TABLE [IF EXISTS] name [PURGE]``."""

    name: TableName
    if_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DropView:
    """``DROP VIEW [IF EXISTS] name``."""

    name: TableName
    if_exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """``[WITH …] INSERT INTO|OVERWRITE [TABLE] name [(columns)|BY NAME] query``.

    Attributes:
        name: The name of the table that gets the rows.
        overwrite: Whether the rows replace those of the table.
        columns: The columns of the list after the name; None if there is no list.
        by_name: Whether columns are matched by name.
        clause_span: From ``INSERT`` to right before the query. The text without this span is a query.
        end: Offset after the last token.
        unsupported: The words of the first clause that temporary tables do not support, such as ``PARTITION``, or the
            unexpected word; None if there is neither. If it is set, there is no query, and the attributes other than
            the names may lack the clauses that come after.
        other_names: The further tables of ``FROM … INSERT … INSERT …``.
    """

    name: TableName
    overwrite: bool
    columns: tuple[str, ...] | None
    by_name: bool
    clause_span: Span
    end: int
    unsupported: str | None
    other_names: tuple[TableName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTable:
    """``TRUNCATE TABLE name``.

    Attributes:
        name: The name of the table.
        unsupported: ``PARTITION`` or an unexpected word after the name; None if nothing follows.
    """

    name: TableName
    unsupported: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTemporaryTables:
    """``SHOW TEMPORARY TABLES [FROM|IN namespace] [[LIKE] 'pattern']``.

    Only Lodge has this statement.

    Attributes:
        namespace: The namespace; None if there is none.
        pattern: A pattern for the names, as in Spark's ``SHOW TABLES``; None if there is none.
    """

    namespace: TableName | None
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """``SHOW TABLES FROM|IN namespace [[LIKE] 'pattern']``.

    Attributes:
        namespace: The namespace.
        pattern: A pattern for the names; None if there is none.
    """

    namespace: TableName
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateTable:
    """``SHOW CREATE TABLE name [AS SERDE]``."""

    name: TableName
    as_serde: bool


class RelationKind(enum.Enum):
    """The kind of relation that a statement names."""

    TABLE = "TABLE"
    VIEW = "VIEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterRelation:
    """``ALTER TABLE|VIEW name action …``.

    Attributes:
        kind: The word after ``ALTER``.
        name: The name of the table or view.
        action: The one or two words that name the action, in upper case, such as ``RENAME TO``; empty if there are
            none.
        renamed_to: The new name after ``RENAME TO``; None if there is none.
    """

    kind: RelationKind
    name: TableName
    action: str
    renamed_to: TableName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """``CREATE [OR REPLACE] [[GLOBAL] TEMPORARY] VIEW [IF NOT EXISTS] name …``.

    Attributes:
        name: The name of the view.
        is_temporary: Whether the statement has ``TEMPORARY``, with or without ``GLOBAL``.
        is_global: Whether the statement has ``GLOBAL``.
        or_replace: Whether the statement has ``OR REPLACE``.
        if_not_exists: Whether the statement has ``IF NOT EXISTS``.
        query_span: From right after ``AS`` to the end of the query; None for ``USING``, and if the statement is
            malformed.
    """

    name: TableName
    is_temporary: bool
    is_global: bool
    or_replace: bool
    if_not_exists: bool
    query_span: Span | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """``EXPLAIN [mode] CREATE TEMPORARY TABLE … AS query``.

    Attributes:
        table: The explained statement. It has a query.
        prefix_span: From ``CREATE`` to right after ``AS``. The text without this span explains the query.
        end: Offset after the last token.
    """

    table: CreateTemporaryTable
    prefix_span: Span
    end: int


class ModificationKind(enum.Enum):
    """A change of rows that temporary tables do not support, by its first words."""

    MERGE = "MERGE INTO"
    UPDATE = "UPDATE"
    DELETE = "DELETE FROM"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrUpdate:
    """``MERGE INTO``, ``UPDATE`` or ``DELETE FROM``.

    Attributes:
        kind: The kind of the change.
        name: The name of the changed table.
    """

    kind: ModificationKind
    name: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTableAs:
    """``CACHE [LAZY] TABLE name … [AS] query``, which makes a temporary view.

    Attributes:
        name: The name of the view.
        query_span: From right after ``AS``, or from the query's first token, to the end of the query.
    """

    name: TableName
    query_span: Span


Statement = (
    CreateTemporaryTable
    | CreateTable
    | DropTable
    | DropView
    | Insert
    | TruncateTable
    | ShowTemporaryTables
    | ShowTables
    | ShowCreateTable
    | AlterRelation
    | CreateView
    | Explain
    | MergeOrUpdate
    | CacheTableAs
)

HasQuery = CreateTemporaryTable | CreateTable | Insert | CreateView | Explain | CacheTableAs
