"""Classifies the name in a statement that creates, changes or drops a table.

Source: [temporary-tables §5.1.3, §5.1.8, §5.1.11]; Spark's qualifiers for temporary objects, ``session`` and
``system.session``.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.backends.session_settings import SessionSettings
from gateway.errors import GatewayError, SparkError
from workspace.records import TemporaryTable
from workspace.workspaces import Workspace, Workspaces


class TargetKind(enum.Enum):
    """Where the object that a name refers to is stored.

    Attributes:
        UNQUALIFIED: The name has a single part. It refers to a temporary table or view, or to a Spark table.
        SESSION: The name begins with ``session`` or ``system.session``. It refers to a temporary table or view.
        WORKSPACE: The name is in a workspace.
        ABSENT: The name begins with a workspace name, but the schema after the workspace name does not exist.
        SPARK: All other names. Only Spark can resolve them.
    """

    UNQUALIFIED = enum.auto()
    SESSION = enum.auto()
    WORKSPACE = enum.auto()
    ABSENT = enum.auto()
    SPARK = enum.auto()


@dataclass(frozen=True, slots=True)
class Target:
    """A classified name.

    Attributes:
        kind: Where the object is stored.
        schema: All parts of the name except the last part, as written in the statement.
        name: The last part of the name. As in Drill, leading slashes are removed, unless only Spark can resolve the
            name.
        workspace: The workspace if the kind is ``TargetKind.WORKSPACE``. None otherwise.
    """

    kind: TargetKind
    schema: str
    name: str
    workspace: Workspace | None = None


def parse_target(parts: Sequence[str], workspaces: Workspaces) -> Target:
    """Classify a name that has at least one part."""
    *qualifier, name = parts
    schema = ".".join(qualifier)
    own_name = name.lstrip("/") or name
    if not qualifier:
        return Target(TargetKind.UNQUALIFIED, schema, own_name)
    if schema.lower() in {"session", "system.session"}:
        return Target(TargetKind.SESSION, schema, own_name)
    match = workspaces.match(qualifier)
    if match is None:
        return Target(TargetKind.SPARK, schema, name)
    if match[1] < len(qualifier):
        return Target(TargetKind.ABSENT, schema, name)
    return Target(TargetKind.WORKSPACE, schema, own_name, match[0])


def find_temporary_table(
    target: Target, tables: Sequence[TemporaryTable], workspaces: Workspaces, settings: SessionSettings
) -> TemporaryTable | None:
    """Return the temporary table that a target refers to.

    The table may still be in creation or in deletion.

    Returns:
        The table. None if the target does not refer to a temporary table.
    """
    if target.kind in {TargetKind.SPARK, TargetKind.ABSENT}:
        return None
    if target.workspace is not None and target.workspace is not workspaces.temporary:
        return None
    wanted = settings.comparable_name(target.name)
    return next((table for table in tables if settings.comparable_name(table.name) == wanted), None)


def schema_not_found(name: str, workspaces: Workspaces, hint: str = "") -> GatewayError:
    """Return the error for a name with an unknown schema [temporary-tables §5.4]."""
    return SparkError(
        "SCHEMA_NOT_FOUND",
        f"Schema [{name}] is not valid with respect to either root schema or current default schema. "
        f"Current default schema: {workspaces.temporary.name}.{hint}",
        schemaName=name,
    )
