"""Scans of raw files: the relation that replaces a reference to files in a plan.

Spark receives a scan as a relation of the data source ``lodge``. Its options tell the data source what Spark does not:
which names the statement mentions, so that no column is read without need.

Source: [scan-framework], [architecture "Engine"], [spark-connect-proto], ``relations.proto``.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pyspark.sql.connect.proto import relations_pb2

from engine.errors import ScanOptionError
from engine.scan_source import FORMAT, ScanSource, has_reader, known_schema, selected_directory, supported_suffixes
from gateway.errors import GatewayError, ParseError, table_not_found
from gateway.sql.column_pruning import find_mentioned_names
from gateway.sql.lexer import Token
from gateway.sql.name_syntax import quote_name
from gateway.sql.references import Reference
from gateway.sql.table_options import TableOptions, TableOptionsError, parse_table_options
from gateway.stored_tables.table_descriptions import build_permanent_scan
from workspace.workspaces import PathRefusedError, Workspace, Workspaces

_READABLE = re.compile(r"[^0-9A-Za-z]+")
_MAX_ALIAS_STEM = 40

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NamedScan:
    """A scan and the name by which a statement refers to it.

    Attributes:
        alias: Its name inside the statement.
        options: The options in the statement.
        scan: The relation.
    """

    alias: str
    options: Mapping[str, str]
    scan: relations_pb2.Relation

    def to_relation(self) -> relations_pb2.Relation:
        """Return the scan as a relation with its alias."""
        named = relations_pb2.Relation()
        named.subquery_alias.input.CopyFrom(self.scan)
        named.subquery_alias.alias = self.alias
        return named


class StatementScans:
    """What a statement says about its scans: options and mentioned columns.

    Args:
        tokens: The tokens of the whole text.
        references: All references by workspace name in it.

    Attributes:
        mentioned: See :func:`gateway.sql.column_pruning.find_mentioned_names`.
    """

    def __init__(self, tokens: Sequence[Token], references: Sequence[Reference]) -> None:
        self._options = {
            reference.start: self._parse_options(tokens, reference) for reference in references if reference.is_table
        }
        spans = [(reference.start, self.find_options(reference)[1]) for reference in references if reference.is_table]
        self.mentioned = find_mentioned_names(tokens, spans)

    def find_options(self, reference: Reference) -> tuple[Mapping[str, str], int]:
        """Return the options after a reference to a table, and the end of both."""
        clause = self._options[reference.start]
        return (NO_OPTIONS, reference.end) if clause is None else (clause.values, clause.end)

    @staticmethod
    def _parse_options(tokens: Sequence[Token], reference: Reference) -> TableOptions | None:
        following = bisect_left(tokens, reference.end, key=lambda token: token.start)
        try:
            return parse_table_options(tokens, following)
        except TableOptionsError as error:
            raise ParseError(f"{error} (pos {error.start})") from error


def build_scan_relation(
    workspaces: Workspaces,
    workspace: Workspace,
    path: str,
    *,
    options: Mapping[str, str],
    mentioned: frozenset[str] | None,
    time_zone: str | None = None,
) -> relations_pb2.Relation:
    """Return the relation that reads a path of a workspace.

    The path is a file, a directory, a pattern, or a permanent table.

    Args:
        workspaces: All workspaces.
        workspace: The workspace of the path.
        path: The path in the workspace.
        options: The options of the scan, as the user gives them.
        mentioned: See :func:`gateway.sql.column_pruning.find_mentioned_names`.
        time_zone: The session's time zone, for text that becomes a timestamp; None if no text may become one.

    Raises:
        GatewayError: If the path does not exist, is forbidden or has no reader, or an option is wrong.
    """
    real = _resolve_path(workspaces, workspace, path)
    table = build_permanent_scan(real) if not options and real.is_dir() else None
    if table is not None:
        return table
    reader_options = {key.lower(): value for key, value in options.items()}
    if "format" not in reader_options and real.is_file() and not has_reader(path):
        raise GatewayError(
            "LODGE_NO_READER",
            "0A000",
            f"File [{path}] of workspace [{workspace.name}] has no reader for its suffix. Supported are: "
            f"{', '.join(supported_suffixes())}. For another suffix, use the option [format].",
        )
    excluded = tuple(str(root) for root in workspaces.temporary_roots if isinstance(root, Path))
    source = ScanSource(workspace.name, str(workspace.root), path, excluded=excluded)
    relation = relations_pb2.Relation()
    read = relation.read.data_source
    read.format = FORMAT
    if time_zone is not None:
        reader_options.setdefault("time_zone", time_zone)
    known = known_schema(path, reader_options, mentioned) if real.is_file() else None
    read.schema = reader_options.pop("schema", "") or known or ""
    try:
        read.options.update(source.to_options(reader=reader_options, mentioned=mentioned))
    except ScanOptionError as error:
        raise GatewayError("LODGE_SCAN_OPTIONS", "22023", str(error)) from error
    if not read.schema:
        read.ClearField("schema")
    return relation


def generate_alias(path: str, length: int) -> str:
    """Return a unique, readable alias for a scan.

    The alias is not longer than the text that it replaces, if possible.

    Args:
        path: The path of the scan.
        length: The length of the text that the alias replaces.
    """
    unique = secrets.token_hex(4)
    stem = _READABLE.sub("_", path)[: max(min(length - len(unique) - 2, _MAX_ALIAS_STEM), 0)]
    return f"_{stem}_{unique}" if stem else f"_{unique}"


def _resolve_path(workspaces: Workspaces, workspace: Workspace, path: str) -> Path:
    """Return the real path; for a pattern, the directory that it begins with.

    The engine checks the paths below that directory.
    """
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
