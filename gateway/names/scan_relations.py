"""Scans of raw files: what a reference such as ``dfs.`logs/*.csv` `` becomes in a plan.

Why it exists: Spark gets a scan as a relation of its data source ``lodge``; what the gateway knows and Spark does not
tell a data source is put into its options: which names the statement mentions, so that no column is read in vain.

Source: seed 004; design, "Engine"; Spark: ``relations.proto`` (Read.DataSource, SubqueryAlias).
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pyspark.sql.connect.proto import relations_pb2

from engine.errors import ScanOptionError
from engine.scan_source import FORMAT, ScanSource, has_reader, known_schema, selected_directory, supported_suffixes
from gateway.errors import GatewayError, SyntaxRefusedError, table_not_found
from gateway.sql.column_pruning import find_mentioned_names
from gateway.sql.lexer import Token
from gateway.sql.name_syntax import quote_name
from gateway.sql.references import Reference
from gateway.sql.table_options import TableOptions, TableOptionsError, parse_table_options
from gateway.stored_tables.table_descriptions import permanent_table
from workspace.workspaces import PathRefusedError, Workspace, Workspaces

_READABLE = re.compile(r"[^0-9A-Za-z]+")
_MAX_ALIAS_STEM = 40

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NamedScan:
    """A scan as a statement refers to it.

    Attributes:
        alias: Its name inside the statement.
        options: As the statement gives them.
        scan: The relation.
    """

    alias: str
    options: Mapping[str, str]
    scan: relations_pb2.Relation

    def relation(self) -> relations_pb2.Relation:
        named = relations_pb2.Relation()
        named.subquery_alias.input.CopyFrom(self.scan)
        named.subquery_alias.alias = self.alias
        return named


class StatementScans:
    """What the text of a statement says about the scans in it.

    Args:
        tokens: Of the whole text.
        references: All references by workspace name in it.
    """

    def __init__(self, tokens: Sequence[Token], references: Sequence[Reference]) -> None:
        self._options = {
            reference.start: self._clause(tokens, reference) for reference in references if reference.is_table
        }
        spans = [(reference.start, self.options_of(reference)[1]) for reference in references if reference.is_table]
        self.mentioned = find_mentioned_names(tokens, spans)

    def options_of(self, reference: Reference) -> tuple[Mapping[str, str], int]:
        """The options that follow a reference to a table, and where reference and options end."""
        clause = self._options[reference.start]
        return (NO_OPTIONS, reference.end) if clause is None else (clause.values, clause.end)

    @staticmethod
    def _clause(tokens: Sequence[Token], reference: Reference) -> TableOptions | None:
        following = next((i for i, token in enumerate(tokens) if token.start >= reference.end), len(tokens))
        try:
            return parse_table_options(tokens, following)
        except TableOptionsError as error:
            raise SyntaxRefusedError("PARSE_SYNTAX_ERROR", "42601", f"{error} (pos {error.start})") from error


def build_scan_relation(
    workspaces: Workspaces,
    workspace: Workspace,
    path: str,
    *,
    options: Mapping[str, str],
    mentioned: frozenset[str] | None,
    time_zone: str | None = None,
) -> relations_pb2.Relation:
    """A scan of a file, a directory or the files that a pattern selects; of a permanent table, what reads that.

    Args:
        workspaces: All workspaces.
        workspace: That of the path.
        path: In the workspace.
        options: As the user gives them.
        mentioned: See :func:`gateway.sql.mentioned.find_mentioned_names`.
        time_zone: The session's, for text that becomes a timestamp; None if that may not be.

    Raises:
        GatewayError: There is no such path, it may not be read, or it has no reader.
    """
    real = _resolved(workspaces, workspace, path)
    table = permanent_table(real) if not options and real.is_dir() else None
    if table is not None:
        return table
    given = {key.lower(): value for key, value in options.items()}
    if "format" not in given and real.is_file() and not has_reader(path):
        raise GatewayError(
            "LODGE_NO_READER",
            "0A000",
            f"File [{path}] of workspace [{workspace.name}] has no reader for its suffix. Supported are: "
            f"{', '.join(supported_suffixes())}.",
        )
    excluded = tuple(str(root) for root in workspaces.temporary_roots if isinstance(root, Path))
    source = ScanSource(workspace.name, str(workspace.root), path, excluded=excluded)
    relation = relations_pb2.Relation()
    read = relation.read.data_source
    read.format = FORMAT
    if time_zone is not None:
        given.setdefault("time_zone", time_zone)
    known = known_schema(path, given, mentioned) if real.is_file() else None
    read.schema = given.pop("schema", "") or known or ""
    try:
        read.options.update(source.to_options(reader=given, mentioned=mentioned))
    except ScanOptionError as error:
        raise GatewayError("LODGE_SCAN_OPTIONS", "22023", str(error)) from error
    if not read.schema:
        read.ClearField("schema")
    return relation


def generate_alias(path: str, length: int) -> str:
    """A name for a scan inside one statement: readable, unique, and no longer than what it replaces if possible."""
    unique = secrets.token_hex(4)
    stem = _READABLE.sub("_", path)[: max(min(length - len(unique) - 2, _MAX_ALIAS_STEM), 0)]
    return f"_{stem}_{unique}" if stem else f"_{unique}"


def _resolved(workspaces: Workspaces, workspace: Workspace, path: str) -> Path:
    """The real path; of a pattern, the directory that it begins with. The engine looks at what lies below."""
    try:
        try:
            return workspaces.resolve(workspace, path)
        except FileNotFoundError:
            directory = selected_directory(path)
            if directory == path:
                raise
            return workspaces.resolve(workspace, directory)
    except PathRefusedError as error:
        raise GatewayError("LODGE_PATH_REFUSED", "42501", str(error)) from error
    except FileNotFoundError:
        raise table_not_found(
            f"{workspace.name}.{quote_name(path)}",
            f"There is no file or directory [{path}] in workspace [{workspace.name}]"
            + (" and no temporary table of that name in this session." if workspace is workspaces.temporary else "."),
        ) from None
