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

from google.protobuf.message import Message
from pyspark.sql.connect.proto import relations_pb2

from gateway.errors import LodgeError, table_not_found
from gateway.scans import NO_OPTIONS, NamedScan, Statement, scan_alias, scan_relation
from gateway.sql.lexer import tokens
from gateway.sql.names import quoted
from gateway.sql.references import Reference, find_references, replace_spans
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspace, Workspaces


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a session's statements mean.

    Attributes:
        workspaces: All workspaces.
        tables: The session's temporary tables.
        double_quoted_identifiers: Whether the session reads ``"t"`` as a name.
    """

    workspaces: Workspaces
    tables: Sequence[TemporaryTable]
    double_quoted_identifiers: bool = False

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
        found = [r for r in self._references(text) if r.start == 0 and r.end == len(text.rstrip())]
        if not found:
            return False
        workspace, rest = self._split(found[0])
        table = self._temporary_table(workspace, rest)
        if table is not None:
            relation.read.named_table.unparsed_identifier = f"system.session.{quoted(table.name)}"
        else:
            if relation.read.is_streaming:
                raise LodgeError("LODGE_STREAMING_SCAN", "0A000", f"[{text}] is a file and cannot be read as a stream.")
            relation.read.CopyFrom(self._scan(workspace, rest).read)
        return True

    def _resolved_text(self, text: str) -> tuple[str, Sequence[relations_pb2.Relation]]:
        """The text with its references replaced, and the scans that it then refers to."""
        references = self._references(text)
        if not references:
            return text, ()
        statement = Statement(tokens(text, double_quoted_identifiers=self.double_quoted_identifiers), references)
        spans: list[tuple[int, int, str]] = []
        scans: dict[tuple[str, str], NamedScan] = {}
        for reference in sorted(references, key=lambda reference: not reference.is_table):
            replacement = self._replacement(reference, statement, scans)
            if replacement is not None:
                spans.append((reference.start, *replacement))
        if scans:
            _refuse_view(text)
        return replace_spans(text, sorted(spans)), [scan.relation() for scan in scans.values()]

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
        return find_references(text, self._workspace_parts, double_quoted_identifiers=self.double_quoted_identifiers)

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
        return scan_relation(self.workspaces, workspace, rest[0], options=options, mentioned=mentioned)


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
    words = [token.value.lower() for token in tokens(text)[:8]]
    if words[:1] in (["create"], ["alter"]) and "view" in words:
        raise LodgeError(
            "LODGE_VIEW_OVER_FILE",
            "0A000",
            "A view cannot be made over a file by its workspace name. Make a temporary table of it, or a view of the "
            "DataFrame: spark.table(...).createOrReplaceTempView(...).",
        )
