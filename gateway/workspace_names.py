"""References by workspace name, in plans and in SQL text: made into what Spark understands.

Why it exists: Spark knows nothing of workspaces. ``dfs.tmp.t`` must mean the session's temporary table ``t``, and
``dfs.`amount.csv` `` a scan of that file, in every statement, however deep in its plan.

Guarantees:

1. SQL text is never regenerated: only the spans of such references are replaced, in place where their length allows,
   so that positions in Spark's messages stay right.
2. A reference that cannot be resolved is an error here; none is left for Spark to understand differently.
3. A path never leaves its workspace (:meth:`workspace.workspaces.Workspaces.resolve`).

A file becomes a reference of the statement itself (``WithRelations``), which Spark drops when the statement ends; so
nothing is left behind in the session.

Source: seed 001, 5.1.8, 5.1.10 and 5.1.11; Spark: SparkConnectPlanner.executeSQLWithRefs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from google.protobuf.message import Message
from pyspark.sql.connect.proto import relations_pb2

from engine.errors import ScanOptionError
from engine.source import FORMAT, SOURCE_OPTIONS, ScanSource
from gateway.errors import LodgeError, SyntaxRefusedError, table_not_found
from gateway.scans import NO_OPTIONS, NamedScan, Statement, scan_alias, scan_relation
from gateway.session_settings import SessionSettings
from gateway.sql.lexer import iterate_tokens, tokens
from gateway.sql.names import quoted
from gateway.sql.references import Reference, find_references, replace_spans
from gateway.sql.table_options import TableOptionsError
from gateway.sql.using_clause import using_clauses, written_options
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspace, Workspaces

_ONE_PATH = (
    f"Data source [{FORMAT}] reads one path of a workspace, as text: load('dfs.`a.csv`'), or in SQL "
    "OPTIONS (path 'dfs.`a.csv`'). It cannot be read as a stream."
)


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a session's statements mean.

    Attributes:
        workspaces: All workspaces.
        tables: The session's temporary tables.
        settings: The session's.
    """

    workspaces: Workspaces
    tables: Sequence[TemporaryTable]
    settings: SessionSettings

    def resolve(self, message: Message) -> bool:
        """Resolves all references in a request or plan, in place.

        Returns: Whether anything was changed.
        Raises: LodgeError.
        """
        changed = False
        for child in list(_children(message)):
            changed |= self.resolve(child)
        if isinstance(message, relations_pb2.Relation):
            changed |= self._resolve_relation(message)
        return changed

    def _resolve_relation(self, relation: relations_pb2.Relation) -> bool:
        kind = relation.WhichOneof("rel_type")
        if kind == "sql":
            text, scans = self._resolved_text(relation.sql.query)
            if text == relation.sql.query:
                return False
            relation.sql.query = text
            if scans:
                root = relations_pb2.Relation()
                root.CopyFrom(relation)
                relation.with_relations.root.CopyFrom(root)
                relation.with_relations.references.extend(scans)
            return True
        if kind == "with_relations" and relation.with_relations.root.HasField("with_relations"):
            return self._flatten(relation.with_relations)
        if kind == "read" and relation.read.HasField("named_table"):
            return self._resolve_named_table(relation)
        if kind == "read" and relation.read.data_source.format.lower() == FORMAT:
            return self._resolve_data_source(relation)
        return False

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
        reference = self._whole(text.rstrip())
        if reference is None:
            return False
        workspace, rest = self._split(reference)
        table = self._temporary_table(workspace, rest)
        if table is not None:
            relation.read.named_table.unparsed_identifier = f"system.session.{quoted(table.name)}"
        else:
            if relation.read.is_streaming:
                raise LodgeError("LODGE_STREAMING_SCAN", "0A000", f"[{text}] is a file and cannot be read as a stream.")
            relation.read.CopyFrom(self._scan(workspace, rest, options=relation.read.named_table.options).read)
        return True

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
            raise LodgeError("LODGE_SCAN_OPTIONS", "0A000", _ONE_PATH)
        workspace, rest = self._path(paths[0])
        relation.read.CopyFrom(self._scan(workspace, rest, options=options).read)
        return True

    def _resolve_again(self, relation: relations_pb2.Relation, options: dict[str, str]) -> bool:
        workspace = self.workspaces.by_name.get(options["workspace"])
        path = options.get("path")
        if workspace is None or path is None:
            raise LodgeError("LODGE_SCAN_OPTIONS", "0A000", _ONE_PATH)
        own = {key: value for key, value in options.items() if key not in SOURCE_OPTIONS}
        try:
            mentioned = ScanSource.mentioned_in(options)
        except ScanOptionError as error:
            raise LodgeError("LODGE_SCAN_OPTIONS", "22023", str(error)) from error
        relation.read.CopyFrom(self._scan(workspace, [path], options=own, mentioned=mentioned).read)
        return True

    def _path(self, text: str) -> tuple[Workspace, Sequence[str]]:
        """The workspace and the rest of a name that stands alone in a text."""
        reference = self._whole(text)
        if reference is None:
            names = ", ".join(self.workspaces.by_name)
            raise LodgeError(
                "LODGE_PATH_REFUSED", "42501", f"[{text}] is no path of a workspace ({names}). {_ONE_PATH}"
            )
        return self._split(reference)

    def _whole(self, text: str) -> Reference | None:
        """The reference that the whole text is; None if it is none."""
        return next((one for one in self._references(text) if (one.start, one.end) == (0, len(text))), None)

    def _resolved_text(self, text: str) -> tuple[str, Sequence[relations_pb2.Relation]]:
        """The text with its references replaced, and the scans that it then refers to."""
        text = self._with_sources(text)
        references = self._references(text)
        if not references:
            return text, ()
        statement = Statement(
            tokens(text, double_quoted_identifiers=self.settings.double_quoted_identifiers), references
        )
        spans: list[tuple[int, int, str]] = []
        scans: dict[tuple[str, str], NamedScan] = {}
        for reference in sorted(references, key=lambda reference: not reference.is_table):
            replacement = self._replacement(reference, statement, scans)
            if replacement is not None:
                spans.append((reference.start, *replacement))
        if scans:
            _refuse_view(text)
        return replace_spans(text, sorted(spans)), [scan.relation() for scan in scans.values()]

    def _with_sources(self, text: str) -> str:
        """The text with the options of Lodge's data source made whole, as in ``CREATE VIEW … USING lodge OPTIONS``."""
        if FORMAT not in text.lower():
            return text
        found = tokens(text, double_quoted_identifiers=self.settings.double_quoted_identifiers)
        try:
            clauses = using_clauses(found, FORMAT)
        except TableOptionsError as error:
            raise SyntaxRefusedError("PARSE_SYNTAX_ERROR", "42601", f"{error} (pos {error.start})") from error
        return replace_spans(text, [(one.start, one.end, self._source_options(one.values)) for one in clauses])

    def _source_options(self, values: Mapping[str, str]) -> str:
        options = dict(values)
        paths = [options.pop(key) for key in list(options) if key.lower() == "path"]
        if len(paths) != 1:
            raise LodgeError("LODGE_SCAN_OPTIONS", "0A000", _ONE_PATH)
        workspace, rest = self._path(paths[0])
        source = self._scan(workspace, rest, options=options).read.data_source
        if "schema" in map(str.lower, options):
            raise LodgeError(
                "LODGE_SCAN_OPTIONS", "0A000", "Option [schema] is for queries. Put the columns behind the view's name."
            )
        return written_options(source.options)

    def _replacement(
        self, reference: Reference, statement: Statement, scans: dict[tuple[str, str], NamedScan]
    ) -> tuple[int, str] | None:
        """Where what is replaced ends, and what stands there instead."""
        workspace, rest = self._split(reference)
        key = (workspace.name, rest[0])
        if not reference.is_table and key in scans:
            return reference.end, ".".join([scans[key].alias, *map(quoted, rest[1:])])
        if workspace is self.workspaces.temporary and self._table_named(rest[0]) is not None:
            table = self._temporary_table(workspace, rest[:1] if not reference.is_table else rest)
            if table is not None:
                name = ".".join(map(quoted, (table.name, *rest[1:])))
                return reference.end, f"system.session.{name}" if reference.is_table else name
        if not reference.is_table:
            return None
        options, end = statement.options_of(reference)
        if key in scans and scans[key].options != options:
            raise LodgeError(
                "LODGE_SCAN_OPTIONS",
                "0A000",
                f"[{'.'.join(key)}] is in this statement twice, with different options. Give the same to both.",
            )
        if key not in scans:
            scan = self._scan(workspace, rest, options=options, mentioned=statement.mentioned)
            scans[key] = NamedScan(scan_alias(rest[0], end - reference.start), options, scan)
        return end, scans[key].alias

    def _references(self, text: str) -> Sequence[Reference]:
        return find_references(
            text, self._workspace_parts, double_quoted_identifiers=self.settings.double_quoted_identifiers
        )

    def _workspace_parts(self, parts: Sequence[str]) -> int:
        match = self.workspaces.match(parts)
        return 0 if match is None else match[1]

    def _split(self, reference: Reference) -> tuple[Workspace, Sequence[str]]:
        match = self.workspaces.match(reference.parts[: reference.workspace_parts])
        if match is None:
            raise LookupError(reference.parts)
        return match[0], reference.parts[reference.workspace_parts :]

    def _table_named(self, name: str) -> TemporaryTable | None:
        folded = name.casefold()
        return next((table for table in self.tables if table.name.casefold() == folded), None)

    def _temporary_table(self, workspace: Workspace, rest: Sequence[str]) -> TemporaryTable | None:
        if workspace is not self.workspaces.temporary or len(rest) != 1:
            return None
        table = self._table_named(rest[0])
        if table is not None and table.state is not TableState.READY:
            raise table_not_found(f"{workspace.name}.{rest[0]}", "It is still being created.")
        return table

    def _scan(
        self,
        workspace: Workspace,
        rest: Sequence[str],
        *,
        options: Mapping[str, str] = NO_OPTIONS,
        mentioned: frozenset[str] | None = None,
    ) -> relations_pb2.Relation:
        """A scan of the files that a reference names."""
        if len(rest) != 1:
            raise invalid_schema(
                ".".join((workspace.name, *rest[:-1])),
                self.workspaces,
                hint=f" A file's name stands in backquotes: {workspace.name}.`{'.'.join(rest)}`.",
            )
        return scan_relation(
            self.workspaces, workspace, rest[0], options=options, mentioned=mentioned, time_zone=self.settings.time_zone
        )


def invalid_schema(name: str, workspaces: Workspaces, hint: str = "") -> LodgeError:
    """Seed 001, 5.4: an absent workspace."""
    return LodgeError(
        "SCHEMA_NOT_FOUND",
        "42704",
        f"Schema [{name}] is not valid with respect to either root schema or current default schema. "
        f"Current default schema: {workspaces.temporary.name}.{hint}",
    )


def _children(message: Message) -> Iterator[Message]:
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if isinstance(value, Message):
            yield value
        elif isinstance(value, Mapping):
            yield from (item for item in value.values() if isinstance(item, Message))
        else:
            yield from value


def _refuse_view(text: str) -> None:
    """A view keeps its text, and would look for the scan's name long after the statement."""
    words = [token.value.lower() for token in islice(iterate_tokens(text), 8)]
    if words[:1] in (["create"], ["alter"]) and "view" in words:
        raise LodgeError(
            "LODGE_VIEW_OVER_FILE",
            "0A000",
            "A view cannot be made over a file by its workspace name. Make a temporary table of it, or a view of the "
            "DataFrame: spark.table(...).createOrReplaceTempView(...).",
        )
