"""The statements that Lodge recognises, as values: names, options and the places of what matters in the text.

A span is the offset of its first character and that after its last. Spans of queries end with the statement: semicolons
at the end of the text are in none.

Source: seed 001, 5.1; Spark: SqlBaseParser.g4.
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

    A name of which only a part is computed, from more than a literal, is one too; then the argument is all of it.

    Attributes:
        start: Offset of its first character.
        end: Offset after its last character.
        argument_start: Offset of the argument's first character.
        argument_end: Offset after the argument's last character.
        literal: The argument's value if it is a string, or strings beside each other; else None.
    """

    start: int
    end: int
    argument_start: int
    argument_end: int
    literal: str | None

    @property
    def parts(self) -> tuple[str, ...]:
        """None: only Spark knows them."""
        return ()


TableName = Name | IdentifierClause


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryTable:
    """``CREATE TEMPORARY TABLE [IF NOT EXISTS] name``, with what it is made of: exactly one of the last three is set.

    - ``[(columns)] [USING format] [PARTITION BY (columns)] [OPTIONS (…)] AS query``
    - ``(columns with types) [USING format] [PARTITION BY (columns)] [OPTIONS (…)]``
    - ``LIKE source [USING format]``

    Attributes:
        name: Of the table.
        if_not_exists: Whether a table of that name may exist.
        columns: The columns it names without types; None if it names none.
        storage_format: The format it names, as written; None if it names none.
        partition_columns: The columns it is partitioned by.
        options: By key, as written.
        query_span: From right after ``AS`` to the end of the query.
        definition_span: What stands between the brackets of columns with types.
        like: The table or view whose columns it gets.
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
class CreateTable:
    """``CREATE TABLE [IF NOT EXISTS] name …`` of a name of two or more parts, or ``IDENTIFIER(…)``.

    Attributes:
        name: Of the table.
        if_not_exists: Whether a table of that name may exist.
        columns: The columns it names without types; None if it names none.
        storage_format: The format it names, as written; None if it names none.
        partition_columns: The columns it is partitioned by.
        options: By key, as written.
        query_span: From right after ``AS`` to the end of the query; None if it has none.
        has_other_clauses: Whether it says something else: ``OR REPLACE``, ``EXTERNAL``, types, ``LIKE``, no ``AS``, any
            other clause, or what is malformed. The other attributes may then lack what comes after.
    """

    name: TableName
    if_not_exists: bool
    columns: tuple[str, ...] | None = None
    storage_format: str | None = None
    partition_columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    query_span: Span | None = None
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
        name: Of the table that gets the rows.
        overwrite: Whether they replace what is there.
        columns: The columns it names; None if it names none.
        by_name: Whether columns are matched by name.
        clause_span: From ``INSERT`` to right before the query: without it, the text is a query (``extract_query``).
        end: Offset after the last token.
        unsupported: The words of the first clause that only Spark's tables know, such as ``PARTITION``, or what was not
            understood; else None. Other attributes than the names may then lack what comes after, and there is no
            query.
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
        name: Of the table.
        unsupported: ``PARTITION`` if it has such a clause, or the word that was not understood; else None.
    """

    name: TableName
    unsupported: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTemporaryTables:
    """``SHOW TEMPORARY TABLES [FROM|IN namespace] [[LIKE] 'pattern']``: Lodge's own.

    Attributes:
        namespace: Where; None if not told.
        pattern: Of the names, as Spark's ``SHOW TABLES`` takes it; None if not told.
    """

    namespace: TableName | None
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """``SHOW TABLES FROM|IN namespace [[LIKE] 'pattern']``; as above."""

    namespace: TableName
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateTable:
    """``SHOW CREATE TABLE name [AS SERDE]``."""

    name: TableName
    as_serde: bool


class RelationKind(enum.Enum):
    """What a statement says that a name is."""

    TABLE = "TABLE"
    VIEW = "VIEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterRelation:
    """``ALTER TABLE|VIEW name action …``.

    Attributes:
        kind: What it says that the name is.
        name: Of the table or view.
        action: The word or two that tell what it does, in upper case, such as ``RENAME TO``; empty if there are none.
        renamed_to: The new name, after ``RENAME TO``; else None.
    """

    kind: RelationKind
    name: TableName
    action: str
    renamed_to: TableName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """``CREATE [OR REPLACE] [[GLOBAL] TEMPORARY] VIEW [IF NOT EXISTS] name … [AS query]``.

    Attributes:
        name: Of the view.
        is_temporary: Whether it says ``TEMPORARY``, be it global or not.
        is_global: Whether it says ``GLOBAL``.
        or_replace: Whether it takes the place of a view of that name.
        if_not_exists: Whether a view of that name may exist.
        query_span: From right after ``AS`` to the end of the query; None for ``USING`` and what is malformed.
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
        table: What is explained; its ``query_span`` is set.
        prefix_span: From ``CREATE`` to right after ``AS``: without it, the text explains the query (``extract_query``).
        end: Offset after the last token.
    """

    table: CreateTemporaryTable
    prefix_span: Span
    end: int


class ModificationKind(enum.Enum):
    """A statement that changes rows, and that no temporary table takes."""

    MERGE = "MERGE INTO"
    UPDATE = "UPDATE"
    DELETE = "DELETE FROM"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrUpdate:
    """``MERGE INTO``, ``UPDATE`` or ``DELETE FROM``, with the name of the table that it changes."""

    kind: ModificationKind
    name: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTableAs:
    """``CACHE [LAZY] TABLE name … [AS] query``, which makes a temporary view.

    Attributes:
        name: Of the view.
        query_span: From right after ``AS``, or else from the query's first token, to the end of the query.
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
