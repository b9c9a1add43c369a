"""Scan relations, which replace references to raw files in a plan.

In the plan that Spark receives, a scan is a relation with the data source ``lodge``. The options of the relation
contain information that Spark does not pass to a data source: the names that occur in the statement. With these names,
the data source can skip columns that the statement does not need.

Source: [scan-framework], [architecture "Engine"], [spark-connect-proto], ``relations.proto``.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from google.protobuf.message import Message
from pyspark.sql.connect.proto import relations_pb2

from engine.errors import ScanOptionError
from engine.scan_source import FORMAT, ScanSource, has_reader, known_schema, selected_directory, supported_suffixes
from gateway.blocking_work.file_systems import file_systems
from gateway.errors import GatewayError, ParseError, table_not_found
from gateway.names.plan_messages import find_messages_with_names
from gateway.scans.scan_signatures import is_signed_text
from gateway.scans.scan_sources import source_in
from gateway.sql.column_pruning import find_mentioned_names, unite_names
from gateway.sql.lexer import Token
from gateway.sql.name_syntax import quote_name
from gateway.sql.references import Reference
from gateway.sql.table_options import TableOptions, TableOptionsError, parse_table_options
from gateway.stored_tables.table_descriptions import build_permanent_scan
from workspace.workspaces import PathRefusedError, Workspace, Workspaces

_READABLE = re.compile(r"[^0-9A-Za-z]+")
_MAX_ALIAS_STEM = 40

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

DataSource = relations_pb2.Read.DataSource


@dataclass(frozen=True, slots=True)
class NamedScan:
    """A scan, together with the alias by which a statement refers to it.

    Attributes:
        alias: The alias in the statement.
        options: The options in the statement.
        scan: The scan relation.
    """

    alias: str
    options: Mapping[str, str]
    scan: relations_pb2.Relation

    def to_relation(self) -> relations_pb2.Relation:
        """Return the scan as a relation with the alias."""
        named = relations_pb2.Relation()
        named.subquery_alias.input.CopyFrom(self.scan)
        named.subquery_alias.alias = self.alias
        return named


class StatementScans:
    """The options and the mentioned columns of the scans in one statement.

    Args:
        tokens: All tokens of the statement.
        references: All references to workspaces in the statement.
        of_operations: The names that the operations of a DataFrame on the statement mention. None for all.

    Attributes:
        mentioned: See :func:`gateway.sql.column_pruning.find_mentioned_names`.
    """

    def __init__(
        self, tokens: Sequence[Token], references: Sequence[Reference], of_operations: frozenset[str] | None
    ) -> None:
        self._options = {
            reference.start: self._parse_options(tokens, reference) for reference in references if reference.is_table
        }
        spans = [(reference.start, self.find_options(reference)[1]) for reference in references if reference.is_table]
        self.mentioned = unite_names(find_mentioned_names(tokens, spans), of_operations)

    def find_options(self, reference: Reference) -> tuple[Mapping[str, str], int]:
        """Return the options of a table reference, and the offset after the options."""
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
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> relations_pb2.Relation:
    """Return the relation that reads a path in a workspace.

    The path can be a file, a directory, a pattern or a permanent table.

    Args:
        workspaces: All workspaces.
        workspace: The workspace that contains the path.
        path: The path in the workspace.
        options: The scan options that the user specified.
        mentioned: See :func:`gateway.sql.column_pruning.find_mentioned_names`.
        defaults: The options that are settings of the session, for which the user has no option.

    Raises:
        GatewayError: If the path does not exist, is forbidden or has no reader, or an option is invalid.
    """
    if workspace.is_remote_source:
        source = source_in(workspaces, workspace, _check_remote_path(workspace, path))
        return _to_relation(source, dict(options), mentioned, defaults, known=None)
    with file_systems.access(workspace):
        return _build_scan_relation(
            workspaces, workspace, path, options=options, mentioned=mentioned, defaults=defaults
        )


def _build_scan_relation(
    workspaces: Workspaces,
    workspace: Workspace,
    path: str,
    *,
    options: Mapping[str, str],
    mentioned: frozenset[str] | None,
    defaults: Mapping[str, str],
) -> relations_pb2.Relation:
    real = _resolve_path(workspaces, workspace, path)
    table = build_permanent_scan(real) if not options and real.is_dir() else None
    if table is not None:
        return table
    reader_options = {key.lower(): value for key, value in options.items()}
    if "format" not in reader_options and real.is_file() and not has_reader(path):
        raise GatewayError(
            "LODGE_NO_READER",
            "0A000",
            f"No reader supports the suffix of file [{path}] in workspace [{workspace.name}]. The supported suffixes "
            f"are {', '.join(supported_suffixes())}. For files with another suffix, set the option [format].",
        )
    source = source_in(workspaces, workspace, path)
    known = known_schema(path, reader_options, mentioned) if real.is_file() else None
    return _to_relation(source, reader_options, mentioned, defaults, known=known)


def _to_relation(
    source: ScanSource,
    options: Mapping[str, str],
    mentioned: frozenset[str] | None,
    defaults: Mapping[str, str],
    *,
    known: str | None,
) -> relations_pb2.Relation:
    reader_options = {key.lower(): value for key, value in options.items()}
    reader_options = {**defaults, **reader_options}
    relation = relations_pb2.Relation()
    read = relation.read.data_source
    read.format = FORMAT
    read.schema = reader_options.pop("schema", "") or known or ""
    try:
        read.options.update(source.to_options(reader=reader_options, mentioned=mentioned))
    except ScanOptionError as error:
        raise GatewayError("LODGE_SCAN_OPTIONS", "22023", str(error)) from error
    if not read.schema:
        read.ClearField("schema")
    return relation


def uses_engine(message: Message) -> bool:
    """Return whether a plan whose names are resolved has scans, or a SQL text with the options of one."""
    return any(each.read.data_source.format == FORMAT or is_signed_text(each.sql.query) for each in _relations(message))


def find_scans(message: Message) -> Sequence[relations_pb2.Relation]:
    """Return the scan relations in a plan whose names are resolved."""
    return [each for each in _relations(message) if each.read.data_source.format == FORMAT]


def _relations(message: Message) -> Iterator[relations_pb2.Relation]:
    return (each for each in find_messages_with_names(message) if isinstance(each, relations_pb2.Relation))


def generate_alias(path: str, length: int) -> str:
    """Return a unique, readable alias for a scan.

    If possible, the alias is not longer than the text that it replaces.

    Args:
        path: The path of the scan.
        length: The length of the text that the alias replaces.
    """
    unique = secrets.token_hex(4)
    stem = _READABLE.sub("_", path)[: max(min(length - len(unique) - 2, _MAX_ALIAS_STEM), 0)]
    return f"_{stem}_{unique}" if stem else f"_{unique}"


def _check_remote_path(workspace: Workspace, path: str) -> str:
    """Return the path of a scan in an object store or HDFS. The engine finds out whether it exists."""
    names = path.split("/")
    if path != "." and ("\0" in path or not {"", ".", ".."}.isdisjoint(names)):
        raise GatewayError(
            "LODGE_PATH_REFUSED",
            "42501",
            f"Path [{path}] of workspace [{workspace.name}] is not allowed. Use a path relative to the workspace, "
            "without '..', '.' or empty names.",
        )
    return path


def _resolve_path(workspaces: Workspaces, workspace: Workspace, path: str) -> Path:
    """Return the real path of a scan.

    For a pattern, return the directory at the start of the pattern. The engine checks the paths below this directory.
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
            [*workspace.name.split("."), path],
        ) from None
