"""What a name means in one session: a temporary table, or a file of a workspace.

Source: seed 001, 5.1.2, 5.1.8, 5.1.10 and 5.1.11.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import relations_pb2

from engine.scan_source import FORMAT
from gateway.errors import GatewayError, table_not_found
from gateway.names.scan_relations import NO_OPTIONS, build_scan_relation
from gateway.names.targets import TargetKind, is_same_name, parse_target, schema_not_found
from gateway.session_settings import SessionSettings
from gateway.sql.references import Reference, find_references
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspace, Workspaces

ONE_PATH = (
    f"Data source [{FORMAT}] reads one path of a workspace, as text: load('dfs.`a.csv`'), or in SQL "
    "OPTIONS (path 'dfs.`a.csv`'). It cannot be read as a stream."
)


@dataclass(frozen=True, slots=True)
class NameLookup:
    """The names of one session, for one request.

    Attributes:
        workspaces: All workspaces.
        tables: The session's temporary tables.
        settings: The session's.
    """

    workspaces: Workspaces
    tables: Sequence[TemporaryTable]
    settings: SessionSettings

    def workspace_parts(self, parts: Sequence[str]) -> int:
        """How many leading parts of a name are a workspace; 0 if it begins with none."""
        match = self.workspaces.match(parts)
        return 0 if match is None else match[1]

    def is_mentioned(self, text: str) -> bool:
        """Whether the first part of a workspace's name stands anywhere in a text, in any letter case."""
        lowered = text.lower()
        return any(name.partition(".")[0].lower() in lowered for name in self.workspaces.by_name)

    def concerns_lodge(self, parts: Sequence[str]) -> bool:
        """Whether a name is a temporary table's, ready or not, or leads into a workspace."""
        if not parts:
            return False
        target = parse_target(parts, self.workspaces)
        if target.kind in (TargetKind.WORKSPACE, TargetKind.ABSENT):
            return True
        return target.kind is not TargetKind.SPARK and any(
            is_same_name(table.name, target.name, self.settings) for table in self.tables
        )

    def whole(self, text: str) -> Reference | None:
        """The reference that a whole text is; None if it is none."""
        found = find_references(
            text, self.workspace_parts, double_quoted_identifiers=self.settings.double_quoted_identifiers
        )
        return next((one for one in found if (one.start, one.end) == (0, len(text))), None)

    def split(self, reference: Reference) -> tuple[Workspace, Sequence[str]]:
        """The workspace of a reference, and the parts after it."""
        match = self.workspaces.match(reference.parts[: reference.workspace_parts])
        if match is None:
            raise LookupError(reference.parts)
        return match[0], reference.parts[reference.workspace_parts :]

    def path(self, text: str) -> tuple[Workspace, Sequence[str]]:
        """The workspace and the rest of a name that stands alone in a text. Raises: GatewayError if it is none."""
        reference = self.whole(text)
        if reference is None:
            names = ", ".join(self.workspaces.by_name)
            raise GatewayError(
                "LODGE_PATH_REFUSED", "42501", f"[{text}] is no path of a workspace ({names}). {ONE_PATH}"
            )
        return self.split(reference)

    def temporary_table(self, workspace: Workspace, name: str) -> TemporaryTable | None:
        """The temporary table that a name in a workspace means. A leading slash means nothing, as for Drill.

        Raises: GatewayError if it is not ready yet.
        """
        if workspace is not self.workspaces.temporary:
            return None
        wanted = name.lstrip("/")
        table = next((table for table in self.tables if is_same_name(table.name, wanted, self.settings)), None)
        if table is not None and table.state is not TableState.READY:
            raise table_not_found(f"{workspace.name}.{name}", "It is still being created.")
        return table

    def scan(
        self,
        workspace: Workspace,
        rest: Sequence[str],
        *,
        options: Mapping[str, str] = NO_OPTIONS,
        mentioned: frozenset[str] | None = None,
    ) -> relations_pb2.Relation:
        """A scan of the files that a reference names. Raises: GatewayError."""
        if len(rest) != 1:
            raise schema_not_found(
                ".".join((workspace.name, *rest[:-1])),
                self.workspaces,
                hint=f" A file's name stands in backquotes: {workspace.name}.`{'.'.join(rest)}`.",
            )
        return build_scan_relation(
            self.workspaces, workspace, rest[0], options=options, mentioned=mentioned, time_zone=self.settings.time_zone
        )
