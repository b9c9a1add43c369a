"""References by workspace name, in plans and in SQL text: made into what Spark understands.

Why it exists: Spark knows nothing of workspaces. ``dfs.tmp.t`` must mean the session's temporary table ``t``, and
``dfs.`amount.csv` `` a scan of that file, in every statement, however deep in its plan.

Guarantees:

1. Every way to a name is resolved: SQL text and what stands in it (:mod:`gateway.names.texts`), tables and columns of
   DataFrames, expressions as text, calls of the catalog, plans that are compressed.
2. A reference that cannot be resolved is an error here; none is left for Spark to understand differently.
3. A path never leaves its workspace (:meth:`workspace.workspaces.Workspaces.resolve`).

Not guaranteed: a column of a DataFrame that is called like a workspace, and whose fields are called like its temporary
tables and their columns, is taken for the table's column.

A file becomes a reference of the statement itself (``WithRelations``), which Spark drops when the statement ends; so
nothing is left behind in the session.

Source: seed 001, 5.1.8, 5.1.10 and 5.1.11; Spark: SparkConnectPlanner.executeSQLWithRefs.
"""

from collections.abc import Callable, Iterable, Sequence

from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, commands_pb2, expressions_pb2, relations_pb2

from engine.errors import ScanOptionError
from engine.scan_source import FORMAT, SOURCE_OPTIONS, ScanSource
from gateway.errors import GatewayError
from gateway.names.catalog_calls import resolve_catalog_call
from gateway.names.embedded_statements import TextPlace
from gateway.names.name_lookup import ONE_PATH, NameLookup
from gateway.names.plan_messages import command_relations, find_messages_with_names
from gateway.names.sql_text_resolver import SqlTextResolver
from gateway.plan_decoding import decompress, recompress
from gateway.sql.name_syntax import qualify_with_session, quote_name
from gateway.sql_relations import read_parameters, read_sql_command, remove_positional_parameters

_Expression = expressions_pb2.Expression


class PlanResolver(NameLookup):
    """What the names in a session's statements mean, singly and in whole plans."""

    __slots__ = ()

    def resolve(self, message: Message, aliases: Iterable[str] = ()) -> bool:
        """Resolves all references in a request or plan, in place. Reads files, and may take long.

        Args:
            message: The request, the plan or a part of it.
            aliases: PlanResolver that the rest of the plan defines.

        Returns: Whether anything was changed.
        Raises: GatewayError, UnreadablePlanError.
        """
        return _Resolver(self).resolve(message, aliases)


class _Resolver:
    """Resolves the names in one request."""

    def __init__(self, lookup: NameLookup) -> None:
        self._lookup = lookup
        self._texts = SqlTextResolver(lookup)
        self._aliases = frozenset[str]()
        self._commands = set[int]()
        self._by_kind: dict[str, Callable[..., bool]] = {
            base_pb2.Plan.DESCRIPTOR.full_name: self._resolve_plan,
            commands_pb2.SqlCommand.DESCRIPTOR.full_name: self._resolve_old_command,
            commands_pb2.WriteStreamOperationStart.DESCRIPTOR.full_name: self._refuse_stream,
            relations_pb2.Relation.DESCRIPTOR.full_name: self._resolve_relation,
            _Expression.ExpressionString.DESCRIPTOR.full_name: self._resolve_expression,
            _Expression.UnresolvedAttribute.DESCRIPTOR.full_name: self._resolve_attribute,
            _Expression.UnresolvedStar.DESCRIPTOR.full_name: self._resolve_star,
            _Expression.UnresolvedRegex.DESCRIPTOR.full_name: self._resolve_regex,
        }

    def resolve(self, root: Message, aliases: Iterable[str] = ()) -> bool:
        found = find_messages_with_names(root)
        commands = (message for message in found if isinstance(message, commands_pb2.SqlCommand))
        self._commands = {id(text) for command in commands for text in command_relations(command)}
        relations = (message for message in found if isinstance(message, relations_pb2.Relation))
        own = (relation.subquery_alias.alias for relation in relations if relation.HasField("subquery_alias"))
        self._aliases = frozenset(alias.casefold() for alias in (*own, *aliases))
        changed = False
        for message in found:
            changed |= self._by_kind[message.DESCRIPTOR.full_name](message)
        return changed

    def _resolve_plan(self, plan: base_pb2.Plan) -> bool:
        if not plan.HasField("compressed_operation"):
            return False
        operation = decompress(plan)
        changed = _Resolver(self._lookup).resolve(operation)
        if changed:
            recompress(plan, operation)
        return changed

    def _resolve_old_command(self, command: commands_pb2.SqlCommand) -> bool:
        """Older clients send the text alone."""
        if command.HasField("input") or not command.sql:
            return False
        relation = read_sql_command(command)
        if not self._resolve_text(relation, TextPlace.COMMAND):
            return False
        command.Clear()
        command.input.CopyFrom(relation)
        return True

    def _refuse_stream(self, stream: commands_pb2.WriteStreamOperationStart) -> bool:
        """A stream into a temporary table is a command of Lodge's own, and does not come here."""
        if self._lookup.whole(stream.table_name.strip()) is None:
            return False
        raise GatewayError(
            "LODGE_STREAMING_WRITE",
            "0A000",
            f"[{stream.table_name}] is in a workspace, and no stream can be written there. Write it into files, "
            "writeStream.start(path), or into a table of Spark's.",
        )

    def _resolve_relation(self, relation: relations_pb2.Relation) -> bool:
        kind = relation.WhichOneof("rel_type")
        if kind == "sql":
            return self._resolve_text(relation, TextPlace.COMMAND if id(relation) in self._commands else TextPlace.PLAN)
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
        resolved = self._texts.resolved(sql.query, place, read_parameters(sql))
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
        """SQL text with references of its own got more of them: both belong to the one text."""
        inner = relations_pb2.WithRelations()
        inner.CopyFrom(outer.root.with_relations)
        if inner.root.WhichOneof("rel_type") != "sql":
            return False
        outer.root.CopyFrom(inner.root)
        outer.references.extend(inner.references)
        return True

    def _resolve_named_table(self, relation: relations_pb2.Relation) -> bool:
        text = relation.read.named_table.unparsed_identifier
        reference = self._lookup.whole(text.strip())
        if reference is None:
            return False
        workspace, rest = self._lookup.split(reference)
        table = self._lookup.temporary_table(workspace, rest[0]) if len(rest) == 1 else None
        if table is not None:
            relation.read.named_table.unparsed_identifier = qualify_with_session(table.name)
            return True
        if relation.read.is_streaming:
            raise GatewayError("LODGE_STREAMING_SCAN", "0A000", f"[{text}] is a file and cannot be read as a stream.")
        scan = self._lookup.scan(workspace, rest, options=relation.read.named_table.options)
        _put(relation, scan)
        return True

    def _resolve_changes(self, changes: relations_pb2.RelationChanges) -> bool:
        reference = self._lookup.whole(changes.unparsed_identifier.strip())
        if reference is None:
            return False
        raise GatewayError(
            "LODGE_NO_CHANGES",
            "0A000",
            f"[{changes.unparsed_identifier}] is in a workspace, and no changes are kept of what is there. Read it by "
            "spark.table(...).",
        )

    def _resolve_data_source(self, relation: relations_pb2.Relation) -> bool:
        """A scan by the name of Lodge's data source: its path is a reference like those in SQL.

        A client that got a resolved scan as the result of its SQL sends that back. It is resolved anew, so nothing
        depends on what stands in it.
        """
        source = relation.read.data_source
        options = {key.lower(): value for key, value in source.options.items()}
        if source.schema:
            options["schema"] = source.schema
        if "workspace" in options and not source.paths:
            return self._resolve_again(relation, options)
        paths = [*source.paths, *filter(None, [options.pop("path", "")])]
        if relation.read.is_streaming or len(paths) != 1:
            raise GatewayError("LODGE_SCAN_OPTIONS", "0A000", ONE_PATH)
        workspace, rest = self._lookup.path(paths[0])
        _put(relation, self._lookup.scan(workspace, rest, options=options))
        return True

    def _resolve_again(self, relation: relations_pb2.Relation, options: dict[str, str]) -> bool:
        workspace = self._lookup.workspaces.by_name.get(options["workspace"])
        path = options.get("path")
        if workspace is None or path is None:
            raise GatewayError("LODGE_SCAN_OPTIONS", "0A000", ONE_PATH)
        own = {key: value for key, value in options.items() if key not in SOURCE_OPTIONS}
        try:
            mentioned = ScanSource.mentioned_in(options)
        except ScanOptionError as error:
            raise GatewayError("LODGE_SCAN_OPTIONS", "22023", str(error)) from error
        _put(relation, self._lookup.scan(workspace, [path], options=own, mentioned=mentioned))
        return True

    def _resolve_expression(self, expression: expressions_pb2.Expression.ExpressionString) -> bool:
        resolved = self._texts.resolved(expression.expression)
        if resolved.scans:
            raise GatewayError(
                "LODGE_FILE_IN_EXPRESSION",
                "0A000",
                f"[{expression.expression}] reads a file, which an expression of a DataFrame cannot. Join with "
                "spark.table(...), or make a view of it first: spark.table(...).createOrReplaceTempView(...).",
            )
        changed = resolved.text != expression.expression
        expression.expression = resolved.text
        return changed

    def _resolve_attribute(self, attribute: expressions_pb2.Expression.UnresolvedAttribute) -> bool:
        name = self._column(attribute.unparsed_identifier)
        if name is None:
            return False
        attribute.unparsed_identifier = ".".join(map(quote_name, name))
        return True

    def _resolve_star(self, star: expressions_pb2.Expression.UnresolvedStar) -> bool:
        """``t.*``."""
        name = self._column(star.unparsed_target.removesuffix(".*"))
        if name is None or not star.unparsed_target.endswith(".*"):
            return False
        star.unparsed_target = ".".join([*map(quote_name, name), "*"])
        return True

    def _resolve_regex(self, regex: expressions_pb2.Expression.UnresolvedRegex) -> bool:
        """``t.`a.*` ``; Spark takes what stands before the last quote_name part as it is."""
        name = self._column(regex.col_name)
        if name is None or len(name) != 2:
            return False
        regex.col_name = f"{name[0]}.{quote_name(name[1])}"
        return True

    def _column(self, text: str) -> Sequence[str] | None:
        """The name of a column, or of all of a table's, by the table alone; None if it is not one by the workspace."""
        reference = self._lookup.whole(text)
        if reference is None or reference.parts[0].casefold() in self._aliases:
            return None
        workspace, rest = self._lookup.split(reference)
        table = self._lookup.temporary_table(workspace, rest[0])
        return None if table is None else [table.name, *rest[1:]]


def _put(relation: relations_pb2.Relation, other: relations_pb2.Relation) -> None:
    """Another relation in the place of one, which keeps what the client calls it."""
    common = relations_pb2.RelationCommon()
    common.CopyFrom(relation.common)
    relation.CopyFrom(other)
    relation.common.CopyFrom(common)
