"""Data classes for the statements that may concern a temporary table.

A span consists of the offset of its first character and the offset after its last character. The span of a query ends
at the end of the statement, before any semicolons at the end of the text.

Source: [temporary-tables §5.1], [spark-sql-grammar statement].
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

Span = tuple[int, int]
Partition = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a table or view.

    Attributes:
        parts: The parts of the name without quotes. There is at least one part.
        start: Offset of the first character of the name.
        end: Offset after the last character of the name.
    """

    parts: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class IdentifierClause:
    """A name that Spark computes: ``IDENTIFIER(argument)``.

    This class also represents a longer name if Spark computes one of its parts. In this case, the argument is the whole
    name. If Lodge can compute the name too, :func:`gateway.sql.identifier_clauses.evaluate_identifier_clauses` returns
    it.

    Attributes:
        start: Offset of the first character of the clause.
        end: Offset after the last character of the clause.
        argument_start: Offset of the first character of the argument.
        argument_end: Offset after the last character of the argument.
    """

    start: int
    end: int
    argument_start: int
    argument_end: int

    @property
    def parts(self) -> tuple[str, ...]:
        """An empty tuple, because only Spark can compute the parts."""
        return ()


TableName = Name | IdentifierClause


@dataclass(frozen=True, slots=True, kw_only=True)
class _CreateStatement:
    """The common attributes of ``CREATE TEMPORARY TABLE`` and ``CREATE TABLE``.

    Attributes:
        name: The name of the table.
        if_not_exists: Whether the statement contains ``IF NOT EXISTS``.
        columns: The names in a column list without types. None without such a list.
        storage_format: The format after ``USING``, as written in the statement. None without ``USING``.
        partition_columns: The columns after ``PARTITION BY``. Empty if they have types.
        partition_definition_span: The span of the partition columns with types, without brackets. None without types.
        options: The options, as written in the statement.
        properties: The properties of the table. A comment has the key ``comment``.
        query_span: The span of the query, starting right after ``AS``. None without a query.
        definition_span: The span of the column definitions with types, without brackets. None without column
            definitions.
        like: The table or view after ``LIKE``. None without ``LIKE``.
    """

    name: TableName
    if_not_exists: bool
    columns: tuple[str, ...] | None = None
    storage_format: str | None = None
    partition_columns: tuple[str, ...] = ()
    partition_definition_span: Span | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    query_span: Span | None = None
    definition_span: Span | None = None
    like: TableName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemporaryTable(_CreateStatement):
    """``CREATE [OR REPLACE] TEMPORARY TABLE [IF NOT EXISTS] name``, in one of three forms.

    Exactly one of ``query_span``, ``definition_span`` and ``like`` is set:

    - ``[(columns)] [USING format] [PARTITION BY (columns)] [OPTIONS (…)] AS query``
    - ``(columns with types) [USING format] [PARTITION BY (columns)] [OPTIONS (…)]``
    - ``LIKE source [USING format]``

    Attributes:
        or_replace: Whether the statement contains ``OR REPLACE``.
    """

    or_replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(_CreateStatement):
    """``CREATE TABLE [IF NOT EXISTS] name …``.

    The name has at least two parts, or is an ``IDENTIFIER(…)`` clause.

    Attributes:
        has_other_clauses: Whether the statement differs from ``CREATE TABLE name [(columns)] [USING format] [PARTITION
            BY (columns)] [OPTIONS (…)] AS query``, or is malformed. In this case, clauses after the first unexpected
            clause may be missing from the attributes.
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
    """``[WITH …] INSERT INTO|OVERWRITE [TABLE] name [PARTITION (…)] [(columns)|BY NAME] query``.

    Attributes:
        name: The name of the table to insert into.
        overwrite: Whether the new rows replace rows of the table.
        clause_span: The span from ``INSERT``, or from the first ``INSERT`` of the text, to the start of the query.
            Without this span, the text up to the end is a query.
        end: Offset after the last token of the query.
        unsupported: The first clause that temporary tables do not support, for example ``IF NOT EXISTS``, or the first
            unexpected word. None if the statement is supported. If this attribute is set, there is no query, and
            clauses after the unsupported clause may be missing from the attributes.
        partition: The columns in the ``PARTITION`` clause, each with the text of its value. None for a column whose
            values are in the rows.
        columns_end: Offset after the partitions and the words that say how columns are matched.
        if_not_exists: The span of ``IF NOT EXISTS``. None without it.
        replace_where: The span of the condition of ``REPLACE WHERE``. None without it.
    """

    name: TableName
    overwrite: bool
    clause_span: Span
    end: int
    unsupported: str | None
    columns_end: int
    partition: Partition = ()
    if_not_exists: Span | None = None
    replace_where: Span | None = None

    @property
    def columns_span(self) -> Span:
        """The span after the name of the table: the partitions, and how columns are matched."""
        return self.name.end, self.columns_end if self.if_not_exists is None else self.if_not_exists[0]


@dataclass(frozen=True, slots=True)
class MultiInsert:
    """``[WITH …] FROM … INSERT … SELECT … INSERT … SELECT …``, with at least two ``INSERT`` clauses."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTable:
    """``TRUNCATE TABLE name [PARTITION (…)]``.

    Attributes:
        name: The name of the table.
        partition: The columns in the ``PARTITION`` clause, each with the text of its value. None without the clause.
    """

    name: TableName
    partition: Partition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTemporaryTables:
    """``SHOW TEMPORARY TABLES [FROM|IN namespace] [[LIKE] 'pattern']``.

    This statement exists only in Lodge.

    Attributes:
        namespace: The namespace. None without a namespace.
        pattern: The pattern for table names, as in Spark's ``SHOW TABLES``. None without a pattern.
    """

    namespace: TableName | None
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTables:
    """``SHOW TABLES FROM|IN namespace [[LIKE] 'pattern']``.

    Attributes:
        namespace: The namespace.
        pattern: The pattern for table names. None without a pattern.
    """

    namespace: TableName
    pattern: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateTable:
    """``SHOW CREATE TABLE name [AS SERDE]``."""

    name: TableName
    as_serde: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowSessions:
    """``SHOW SESSIONS``. This statement exists only in Lodge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """``CLOSE SESSION 'id'``. This statement exists only in Lodge.

    Attributes:
        session_id: The UUID or the client session id of the session.
    """

    session_id: str


class RelationKind(enum.Enum):
    """Whether a statement alters a table or a view."""

    TABLE = "TABLE"
    VIEW = "VIEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterRelation:
    """``ALTER TABLE|VIEW name action …``.

    Attributes:
        kind: The word after ``ALTER``.
        name: The name of the table or view.
        action: The first one or two words of the action in upper case, for example ``RENAME TO``. Empty without an
            action.
        renamed_to: The new name after ``RENAME TO``. None without ``RENAME TO``.
        action_span: The span of the action.
    """

    kind: RelationKind
    name: TableName
    action: str
    renamed_to: TableName | None
    action_span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentOnTable:
    """``COMMENT ON TABLE name IS 'comment'|NULL``.

    Attributes:
        name: The name of the table.
        comment: The comment. None to remove it.
    """

    name: TableName
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowTableProperties:
    """``SHOW TBLPROPERTIES name [(key)]``.

    Attributes:
        name: The name of the table.
        key: The key. None for all.
    """

    name: TableName
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPartitions:
    """``SHOW PARTITIONS name [PARTITION (…)]``.

    Attributes:
        name: The name of the table.
        partition: The columns in the ``PARTITION`` clause, each with the text of its value.
    """

    name: TableName
    partition: Partition = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTable:
    """``DESCRIBE [TABLE] [EXTENDED|FORMATTED] name [PARTITION (…)]``.

    Attributes:
        name: The name of the table.
        is_extended: Whether the statement contains ``EXTENDED`` or ``FORMATTED``.
        partition: The columns in the ``PARTITION`` clause, each with the text of its value.
    """

    name: TableName
    is_extended: bool
    partition: Partition = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeTable:
    """``ANALYZE TABLE name … COMPUTE STATISTICS …``."""

    name: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView:
    """``CREATE [OR REPLACE] [[GLOBAL] TEMPORARY] VIEW [IF NOT EXISTS] name …``.

    Attributes:
        name: The name of the view.
        is_temporary: Whether the statement contains ``TEMPORARY``, with or without ``GLOBAL``.
        is_global: Whether the statement contains ``GLOBAL``.
        or_replace: Whether the statement contains ``OR REPLACE``.
        if_not_exists: Whether the statement contains ``IF NOT EXISTS``.
        query_span: The span of the query, starting right after ``AS``. None for ``USING`` and for malformed statements.
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
        table: The explained statement, which always has a query.
        prefix_span: The span from ``CREATE`` to the end of ``AS``. Without this span, the text explains the query.
        end: Offset after the last token.
    """

    table: CreateTemporaryTable
    prefix_span: Span
    end: int


@dataclass(frozen=True, slots=True)
class ExplainSparkStatement:
    """``EXPLAIN [mode] statement`` for a statement that Spark executes."""


class ModificationKind(enum.Enum):
    """A statement that changes rows of a table.

    The values are the first words of the statement.
    """

    MERGE = "MERGE INTO"
    UPDATE = "UPDATE"
    DELETE = "DELETE FROM"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOrUpdate:
    """``MERGE INTO``, ``UPDATE`` or ``DELETE FROM``.

    Attributes:
        kind: The kind of modification.
        name: The name of the table to modify.
    """

    kind: ModificationKind
    name: TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTableAs:
    """``CACHE [LAZY] TABLE name … [AS] query``, which creates a temporary view.

    Attributes:
        name: The name of the view.
        query_span: The span of the query, starting right after ``AS`` or, without ``AS``, at the first token of the
            query.
    """

    name: TableName
    query_span: Span


Statement = (
    CreateTemporaryTable
    | CreateTable
    | DropTable
    | DropView
    | Insert
    | MultiInsert
    | TruncateTable
    | ShowTemporaryTables
    | ShowTables
    | ShowCreateTable
    | ShowSessions
    | CloseSession
    | AlterRelation
    | CommentOnTable
    | ShowTableProperties
    | ShowPartitions
    | AnalyzeTable
    | DescribeTable
    | CreateView
    | Explain
    | ExplainSparkStatement
    | MergeOrUpdate
    | CacheTableAs
)

HasQuery = CreateTemporaryTable | CreateTable | Insert | CreateView | Explain | CacheTableAs
