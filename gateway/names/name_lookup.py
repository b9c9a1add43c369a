"""Looks up the temporary table or workspace file that a name refers to.

Source: [temporary-tables §5.1.2], [temporary-tables §5.1.8], [temporary-tables §5.1.10], [temporary-tables §5.1.11].
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql.connect.proto import relations_pb2

from engine.scan_source import FORMAT
from gateway.backends.session_settings import SessionSettings
from gateway.errors import GatewayError, table_not_found
from gateway.names.file_metadata import FileMetadata, ReadWithMetadata
from gateway.names.scan_relations import NO_OPTIONS, build_scan_relation
from gateway.names.targets import TargetKind, find_temporary_table, parse_target, schema_not_found
from gateway.scans.planner import SessionScans
from gateway.sql.identifier_clauses import resolve_identifier_clauses
from gateway.sql.lexer import tokenize
from gateway.sql.parameters import Parameters
from gateway.sql.references import Reference, find_references
from gateway.sql.sql_texts import SqlTexts
from workspace.records import TableState, TemporaryTable
from workspace.workspaces import Workspace, Workspaces

ONE_PATH = (
    f"Data source [{FORMAT}] reads exactly one path of a workspace. Use load('dfs.`a.csv`'), or in SQL "
    "OPTIONS (path 'dfs.`a.csv`'). It cannot read a stream."
)


@dataclass(frozen=True, slots=True)
class NameLookup:
    """The names of one session, as needed for one request.

    Attributes:
        workspaces: All workspaces.
        tables: The temporary tables of the session.
        settings: The settings of the session.
        scans: Plans the scans of the session. None if they are not planned.
        texts: The SQL texts of the request.
        files: What is known about the files of the temporary tables. None if nothing is.
        file_metadata: For each query that reads the column ``_metadata`` of temporary tables: these tables, each with
            its rows and this column.
    """

    workspaces: Workspaces
    tables: Sequence[TemporaryTable]
    settings: SessionSettings
    scans: SessionScans | None = None
    texts: SqlTexts = field(default_factory=SqlTexts, compare=False)
    files: FileMetadata | None = field(default=None, compare=False)
    file_metadata: Mapping[str, Sequence[ReadWithMetadata]] = field(default_factory=dict, compare=False)
    _tables_by_name: Mapping[str, TemporaryTable] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        comparable = self.settings.comparable_name
        by_name = {comparable(table.name): table for table in reversed(self.tables)}
        object.__setattr__(self, "_tables_by_name", by_name)

    def count_workspace_parts(self, parts: Sequence[str]) -> int:
        """Return how many leading parts of a name form a workspace name, or 0."""
        match = self.workspaces.match(parts)
        return 0 if match is None else match[1]

    def mentions_workspace(self, text: str) -> bool:
        """Return whether a text contains the first part of any workspace name."""
        lowered = text.lower()
        return any(name.partition(".")[0].lower() in lowered for name in self.workspaces.by_name)

    def concerns_lodge(self, parts: Sequence[str]) -> bool:
        """Return whether a name is in a workspace or refers to a temporary table."""
        if not parts:
            return False
        target = parse_target(parts, self.workspaces)
        if target.kind in (TargetKind.WORKSPACE, TargetKind.ABSENT):
            return True
        return target.kind is not TargetKind.SPARK and self._find_table(target.name) is not None

    def parse_reference(self, text: str) -> Reference | None:
        """Parse a text that is a single reference. Return None for any other text."""
        dialect = self.settings.dialect
        tokens, _ = resolve_identifier_clauses(tokenize(text, dialect), Parameters.of_statement(text), dialect)
        found = find_references(tokens, self.count_workspace_parts)
        return next((one for one in found if (one.start, one.end) == (0, len(text))), None)

    def split_reference(self, reference: Reference) -> tuple[Workspace, Sequence[str]]:
        """Return the workspace of a reference, and the parts after the workspace name."""
        match = self.workspaces.match(reference.parts[: reference.workspace_parts])
        if match is None:
            raise LookupError(reference.parts)
        return match[0], reference.parts[reference.workspace_parts :]

    def parse_path(self, text: str) -> tuple[Workspace, Sequence[str]]:
        """Parse a text that consists of a single name in a workspace.

        Returns:
            The workspace, and the parts after the workspace name.

        Raises:
            GatewayError: If the text is not a name in a workspace.
        """
        reference = self.parse_reference(text)
        if reference is None:
            names = ", ".join(self.workspaces.by_name)
            raise GatewayError(
                "LODGE_PATH_REFUSED", "42501", f"[{text}] is not a path of a workspace ({names}). {ONE_PATH}"
            )
        return self.split_reference(reference)

    def find_temporary_table(self, workspace: Workspace, name: str) -> TemporaryTable | None:
        """Return the temporary table that a name in a workspace refers to.

        Leading slashes in the name are ignored.

        Returns:
            The table. None if the name does not refer to a temporary table.

        Raises:
            GatewayError: If the table is not ready yet.
        """
        if workspace is not self.workspaces.temporary:
            return None
        table = self._find_table(name.lstrip("/"))
        if table is not None and table.state is not TableState.READY:
            is_new = table.state is TableState.CREATING
            hint = "The table is still being created." if is_new else "The table is being dropped."
            raise table_not_found(f"{workspace.name}.{name}", hint, [*workspace.name.split("."), name])
        return table

    def find_named_table(self, parts: Sequence[str]) -> TemporaryTable | None:
        """Return the readable temporary table that a name refers to, with or without a workspace. None for others."""
        target = parse_target(parts, self.workspaces)
        table = find_temporary_table(target, self.tables, self.workspaces, self.settings)
        return table if table is not None and table.state is TableState.READY else None

    def _find_table(self, name: str) -> TemporaryTable | None:
        return self._tables_by_name.get(self.settings.comparable_name(name))

    def build_scan(
        self,
        workspace: Workspace,
        rest: Sequence[str],
        *,
        options: Mapping[str, str] = NO_OPTIONS,
        mentioned: frozenset[str] | None = None,
    ) -> relations_pb2.Relation:
        """Return a relation that reads the files to which a reference refers.

        Args:
            workspace: The workspace of the reference.
            rest: The parts of the reference after the workspace name.
            options: The options of the scan.
            mentioned: See :func:`gateway.sql.column_pruning.find_mentioned_names`.

        Raises:
            GatewayError: If the reference is not a path, or the files cannot be read.
        """
        if len(rest) != 1:
            raise schema_not_found(
                ".".join((workspace.name, *rest[:-1])),
                self.workspaces,
                hint=f" Put the name of a file in backquotes: {workspace.name}.`{'.'.join(rest)}`.",
            )
        return build_scan_relation(
            self.workspaces,
            workspace,
            rest[0],
            options=options,
            mentioned=mentioned,
            defaults=self.settings.scan_options,
        )
