"""Resolves references to workspaces in whole plans.

Spark does not support workspaces. The name ``dfs.tmp.t`` must refer to the temporary table ``t`` of the session, and
the name ``dfs.`amount.csv` `` must refer to a scan of that file. This applies to all statements and to all places in a
plan.

A scan of a file is added to the statement as a reference (``WithRelations``). Spark discards the reference when the
statement ends, so nothing remains in the session.

Guarantees:

1. Names are resolved wherever they occur: in SQL texts, including the texts embedded in them
   (:mod:`gateway.names.sql_text_resolver`), in tables and columns of DataFrames, in expression strings, in catalog
   calls and in compressed plans.
2. A reference that cannot be resolved raises an error in the gateway. Spark never receives it.
3. A path never leaves its workspace (:meth:`workspace.workspaces.Workspaces.resolve`).

Not guaranteed: a nested DataFrame column can be mistaken for a column of a temporary table. This happens if the column
has the name of a workspace, and its fields have the names of the temporary table and its column.

Source: [temporary-tables §5.1.8], [temporary-tables §5.1.10], [temporary-tables §5.1.11],
[spark-connect-server SparkConnectPlanner], ``executeSQLWithRefs``.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2

from engine.errors import ScanOptionError
from engine.scan_source import FORMAT, PLANNED, SOURCE_OPTIONS, ScanSource
from gateway.errors import GatewayError, SparkError
from gateway.messages.deep_messages import append_copies
from gateway.names.catalog_calls import resolve_catalog_call
from gateway.names.embedded_statements import TextPlace
from gateway.names.file_metadata import (
    MAX_QUERIES,
    FileMetadata,
    ReadTable,
    ReadWithMetadata,
    find_queries,
    find_read_tables,
    refuse_visible,
)
from gateway.names.name_lookup import ONE_PATH, NameLookup
from gateway.names.plan_messages import find_messages_with_names, find_statement_texts
from gateway.names.scan_relations import find_scans, uses_engine
from gateway.names.sql_text_resolver import SqlTextResolver
from gateway.plans.sql_relations import find_sql_root, read_parameters, read_sql_command, remove_positional_parameters
from gateway.scans.scan_summary import ScanSummary
from gateway.scans.single_use import find_single_uses
from gateway.scans.spark_readers import may_replace_scans
from gateway.sql.column_pruning import find_names_of_expressions, unite_names
from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import Token, tokenize
from gateway.sql.name_syntax import qualify_with_session, quote_name
from workspace.name_comparison import comparable_name

_Expression = expressions_pb2.Expression


class PlanResolver(NameLookup):
    """Resolves all names of a session in requests and plans."""

    __slots__ = ()

    async def with_file_metadata(self, message: Message) -> Self:
        """Return a resolver that knows which queries of a message read the column ``_metadata`` of temporary tables.

        Raises:
            GatewayError: If such a query is not supported, or the storage or the backend fails.
        """
        if self.files is None or not self.tables:
            return self
        queries = await asyncio.to_thread(find_queries, message, self.settings.dialect)
        found = dict(self.file_metadata)
        for text, query in {query.sql.query: query for query in queries[:MAX_QUERIES]}.items():
            found[text] = await self._read_file_metadata(query, self.files)
        return replace(self, file_metadata={text: tables for text, tables in found.items() if tables})

    async def _read_file_metadata(
        self, query: relations_pb2.Relation, files: FileMetadata
    ) -> Sequence[ReadWithMetadata]:
        """Return the tables whose column ``_metadata`` a query reads."""
        tokens, reads = await asyncio.to_thread(self._find_read_tables, query)
        if not reads:
            return ()
        plan = base_pb2.Plan(root=query)
        await asyncio.to_thread(self.resolve, plan)
        if not plan.root.HasField("sql") or not await files.is_file_metadata_missing(plan.root):
            return ()
        await asyncio.to_thread(refuse_visible, tokens, reads)
        tables = {read.table.name: read.table for read in reads}
        rows = {name: await files.rows_with_file_metadata(table) for name, table in tables.items()}
        return [(read, found) for read in reads if (found := rows[read.table.name]) is not None]

    def _find_read_tables(self, query: relations_pb2.Relation) -> tuple[Sequence[Token], Sequence[ReadTable]]:
        """Return the tokens of a query, and the temporary tables in its ``FROM`` clauses. Neither if it is too long."""
        dialect = self.settings.dialect
        try:
            tokens = tokenize(self.texts.of(query.sql.query), dialect)
            known, _ = resolve_identifier_clauses(tokens, read_parameters(query.sql), dialect)
        except GatewayError:
            return (), ()
        return known, find_read_tables(known, self.find_named_table)

    def resolve(self, message: Message, aliases: Iterable[str] = ()) -> bool:
        """Resolve all references in a message in place.

        This method can block for a long time, because it may read files.

        Args:
            message: A request, a plan or a part of a plan.
            aliases: Aliases that are defined in other parts of the plan.

        Returns:
            Whether the message was changed.

        Raises:
            GatewayError: If a name cannot be resolved, or a SQL text is not allowed.
        """
        return _PlanResolution(self, message, aliases).resolve()

    def resolve_statement(self, plan: base_pb2.Plan) -> bool:
        """Resolve the names in a plan that Spark executes, as :meth:`resolve` does. Its root may be a statement.

        Raises:
            GatewayError: If a name cannot be resolved, or a SQL text is not allowed.
        """
        return _PlanResolution(self, plan, (), find_sql_root(plan)).resolve()

    async def plan_scans(self, message: Message) -> Sequence[ScanSummary]:
        """Plan the scans in a message whose names are resolved, in place. Return what is known about them.

        Raises:
            GatewayError: If the files of a scan cannot be listed or examined, or their schemas conflict.
        """
        if self.scans is None:
            return ()
        if isinstance(message, base_pb2.AnalyzePlanRequest) and message.HasField("persist"):
            self.scans.keep_data_frames()
        if not uses_engine(message):
            return ()
        spark_formats = self.settings.first_readers if may_replace_scans(message) else ()
        single = find_single_uses(_find_executed(message), self.settings.dialect)
        return await self.scans.plan(find_scans(message), spark_formats, single)


def _read_expression(message: Message) -> str:
    """Return the text of an expression of a DataFrame that names columns. Empty for any other message."""
    if isinstance(message, _Expression.UnresolvedAttribute):
        return message.unparsed_identifier
    if isinstance(message, _Expression.ExpressionString):
        return message.expression
    return ""


def _find_names_of_operations(messages: Sequence[Message]) -> frozenset[str] | None:
    """Return the names that the operations of DataFrames mention. Only scans need them."""
    return find_names_of_expressions(map(_read_expression, messages))


def _find_executed(message: Message) -> Message:
    """Return the plan that a request explains. Return any other message unchanged."""
    if isinstance(message, base_pb2.AnalyzePlanRequest) and message.HasField("explain"):
        return message.explain.plan
    return message


class _PlanResolution:
    """The resolution of a single message."""

    def __init__(
        self,
        lookup: NameLookup,
        root: Message,
        aliases: Iterable[str],
        statement: relations_pb2.Relation | None = None,
    ) -> None:
        self._lookup = lookup
        self._found = find_messages_with_names(root)
        self._find_names = cache(partial(_find_names_of_operations, self._found))
        self._texts = SqlTextResolver(lookup, self._find_names)
        self._statements = find_statement_texts(self._found, statement)
        relations = (message for message in self._found if isinstance(message, relations_pb2.Relation))
        own = (relation.subquery_alias.alias for relation in relations if relation.HasField("subquery_alias"))
        self._aliases = frozenset(comparable_name(alias) for alias in (*own, *aliases))

    def resolve(self) -> bool:
        changed = False
        for message in self._found:
            changed |= _RESOLVERS[message.DESCRIPTOR.full_name](self, message)
        return changed

    def _resolve_text_of_old_client(self, command: commands_pb2.SqlCommand) -> bool:
        """Resolve the SQL text of an older client, which does not send a relation."""
        if command.HasField("input") or not command.sql:
            return False
        relation = read_sql_command(command)
        if not self._resolve_text(relation, TextPlace.COMMAND):
            return False
        command.Clear()
        command.input.CopyFrom(relation)
        return True

    def _refuse_stream(self, stream: commands_pb2.WriteStreamOperationStart) -> bool:
        """Raise an error for a stream that writes to a workspace.

        Streams that write to a temporary table are Lodge statements, which are rejected elsewhere.
        """
        if self._lookup.parse_reference(stream.table_name.strip()) is None:
            return False
        raise GatewayError(
            "LODGE_STREAMING_WRITE",
            "0A000",
            f"A stream cannot write to [{stream.table_name}], because it is in a workspace. Write to files with "
            "writeStream.start(path), or to a table of Spark.",
        )

    def _resolve_relation(self, relation: relations_pb2.Relation) -> bool:
        kind = relation.WhichOneof("rel_type")
        if kind == "sql":
            is_statement = id(relation) in self._statements
            return self._resolve_text(relation, TextPlace.COMMAND if is_statement else TextPlace.PLAN)
        if kind == "with_relations" and relation.with_relations.root.HasField("with_relations"):
            return self._flatten(relation.with_relations)
        if kind == "read" and relation.read.HasField("named_table"):
            return self._resolve_named_table(relation)
        if kind == "read" and relation.read.data_source.format.lower() == FORMAT:
            return self._resolve_data_source(relation)
        if kind == "relation_changes":
            return self._resolve_changes(relation.relation_changes)
        return kind == "catalog" and resolve_catalog_call(self._lookup, relation)

    def _resolve_text(self, relation: relations_pb2.Relation, place: TextPlace) -> bool:
        sql = relation.sql
        resolved = self._texts.resolve(sql.query, place, read_parameters(sql))
        if resolved.text == sql.query:
            return False
        sql.query = resolved.text
        remove_positional_parameters(sql, sorted(resolved.unused_positions))
        if resolved.scans:
            root = relations_pb2.Relation()
            root.CopyFrom(relation)
            relation.with_relations.root.CopyFrom(root)
            relation.with_relations.references.extend(resolved.scans)
        return True

    @staticmethod
    def _flatten(outer: relations_pb2.WithRelations) -> bool:
        """Merge two nested lists of references into one.

        If a SQL text already had references before Lodge resolved it, the references to scans are in a nested message.
        """
        inner = relations_pb2.WithRelations()
        inner.CopyFrom(outer.root.with_relations)
        if inner.root.WhichOneof("rel_type") != "sql":
            return False
        outer.root.CopyFrom(inner.root)
        append_copies(outer.references, inner.references)
        return True

    def _resolve_named_table(self, relation: relations_pb2.Relation) -> bool:
        text = relation.read.named_table.unparsed_identifier
        reference = self._lookup.parse_reference(text.strip())
        if reference is None:
            return False
        workspace, rest = self._lookup.split_reference(reference)
        table = self._lookup.find_temporary_table(workspace, rest[0]) if len(rest) == 1 else None
        if table is not None:
            relation.read.named_table.unparsed_identifier = qualify_with_session(table.name)
            return True
        if relation.read.is_streaming:
            raise GatewayError(
                "LODGE_STREAMING_SCAN",
                "0A000",
                f"[{text}] is a file and cannot be read as a stream. Read it with spark.table(...).",
            )
        scan = self._lookup.build_scan(workspace, rest, options=relation.read.named_table.options)
        _replace_relation(relation, scan)
        return True

    def _resolve_changes(self, changes: relations_pb2.RelationChanges) -> bool:
        reference = self._lookup.parse_reference(changes.unparsed_identifier.strip())
        if reference is None:
            return False
        raise GatewayError(
            "LODGE_NO_CHANGES",
            "0A000",
            f"[{changes.unparsed_identifier}] is in a workspace, which does not record changes. Read it with "
            "spark.table(...).",
        )

    def _resolve_data_source(self, relation: relations_pb2.Relation) -> bool:
        """Resolve a scan that uses Lodge's data source by name.

        The path of the scan is a reference, as in SQL. A client may also send back a scan relation that it received as
        the result of a SQL command. Lodge resolves such a scan again and does not trust its options.
        """
        source = relation.read.data_source
        options = {key.lower(): value for key, value in source.options.items()}
        if source.schema and PLANNED not in options:
            options["schema"] = source.schema
        if "workspace" in options and not source.paths:
            return self._resolve_scan_again(relation, options)
        paths = [*source.paths, *filter(None, [options.pop("path", "")])]
        if relation.read.is_streaming or len(paths) != 1:
            raise GatewayError("LODGE_SCAN_OPTIONS", "22023", ONE_PATH)
        workspace, rest = self._lookup.parse_path(paths[0])
        _replace_relation(relation, self._lookup.build_scan(workspace, rest, options=options))
        return True

    def _resolve_scan_again(self, relation: relations_pb2.Relation, options: dict[str, str]) -> bool:
        workspace = self._lookup.workspaces.by_name.get(options["workspace"])
        path = options.get("path")
        if workspace is None or path is None:
            raise GatewayError("LODGE_SCAN_OPTIONS", "22023", ONE_PATH)
        own = {key: value for key, value in options.items() if key not in SOURCE_OPTIONS}
        try:
            mentioned = ScanSource.mentioned_in(options)
        except ScanOptionError as error:
            raise GatewayError("LODGE_SCAN_OPTIONS", "22023", str(error)) from error
        mentioned = unite_names(mentioned, self._find_names())
        _replace_relation(relation, self._lookup.build_scan(workspace, [path], options=own, mentioned=mentioned))
        return True

    def _resolve_expression(self, expression: expressions_pb2.Expression.ExpressionString) -> bool:
        resolved = self._texts.resolve(expression.expression)
        if resolved.scans:
            raise GatewayError(
                "LODGE_FILE_IN_EXPRESSION",
                "0A000",
                f"The expression [{expression.expression}] reads a file. DataFrame expressions cannot read files. Join "
                " with spark.table(...), or create a view first: spark.table(...).createOrReplaceTempView(...).",
            )
        changed = resolved.text != expression.expression
        expression.expression = resolved.text
        return changed

    def _resolve_attribute(self, attribute: expressions_pb2.Expression.UnresolvedAttribute) -> bool:
        name = self._resolve_column(attribute.unparsed_identifier)
        if name is None:
            return False
        attribute.unparsed_identifier = ".".join(map(quote_name, name))
        return True

    def _resolve_star(self, star: expressions_pb2.Expression.UnresolvedStar) -> bool:
        """Resolve the star expression ``t.*``."""
        name = self._resolve_column(star.unparsed_target.removesuffix(".*"))
        if name is None or not star.unparsed_target.endswith(".*"):
            return False
        star.unparsed_target = ".".join([*map(quote_name, name), "*"])
        return True

    def _resolve_regex(self, regex: expressions_pb2.Expression.UnresolvedRegex) -> bool:
        """Resolve the regular expression ``t.`a.*` ``.

        Spark does not parse the text before the last quoted part.
        """
        name = self._resolve_column(regex.col_name)
        if name is None or len(name) != 2:
            return False
        regex.col_name = f"{name[0]}.{quote_name(name[1])}"
        return True

    def _resolve_column(self, text: str) -> Sequence[str] | None:
        """Return the parts of a column name, qualified only by the table name.

        Return None if the column is not qualified by a workspace, or if the plan defines an alias with the name of the
        workspace.
        """
        reference = self._lookup.parse_reference(text)
        if reference is None or comparable_name(reference.parts[0]) in self._aliases:
            return None
        workspace, rest = self._lookup.split_reference(reference)
        table = self._lookup.find_temporary_table(workspace, rest[0])
        return None if table is None else [table.name, *rest[1:]]


def _replace_relation(relation: relations_pb2.Relation, other: relations_pb2.Relation) -> None:
    """Replace the content of a relation, but keep its ``RelationCommon`` message."""
    common = relations_pb2.RelationCommon()
    common.CopyFrom(relation.common)
    relation.CopyFrom(other)
    relation.common.CopyFrom(common)


def _refuse_own_source(_: _PlanResolution, source: relations_pb2.CommonInlineUserDefinedDataSource) -> bool:
    """Raise an error if a client registers a data source with the name of Lodge's own."""
    if source.name.lower() != FORMAT:
        return False
    raise SparkError(
        "DATA_SOURCE_ALREADY_EXISTS",
        f"Data source '{source.name}' already exists. Choose a different name for the new data source.",
        provider=source.name,
    )


_RESOLVERS: Mapping[str, Callable[[_PlanResolution, Any], bool]] = {
    commands_pb2.SqlCommand.DESCRIPTOR.full_name: _PlanResolution._resolve_text_of_old_client,
    commands_pb2.WriteStreamOperationStart.DESCRIPTOR.full_name: _PlanResolution._refuse_stream,
    relations_pb2.CommonInlineUserDefinedDataSource.DESCRIPTOR.full_name: _refuse_own_source,
    relations_pb2.Relation.DESCRIPTOR.full_name: _PlanResolution._resolve_relation,
    _Expression.ExpressionString.DESCRIPTOR.full_name: _PlanResolution._resolve_expression,
    _Expression.UnresolvedAttribute.DESCRIPTOR.full_name: _PlanResolution._resolve_attribute,
    _Expression.UnresolvedStar.DESCRIPTOR.full_name: _PlanResolution._resolve_star,
    _Expression.UnresolvedRegex.DESCRIPTOR.full_name: _PlanResolution._resolve_regex,
}
