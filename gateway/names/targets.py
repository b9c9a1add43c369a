"""What the name in a statement that creates, changes or removes a table means.

Source: seed 001, 5.1.3, 5.1.8 and 5.1.11; Spark: ``session`` and ``system.session`` qualify temporary objects.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.errors import GatewayError
from gateway.session_settings import SessionSettings
from workspace.records import SessionRecord, TemporaryTable
from workspace.workspaces import Workspace, Workspaces


class TargetKind(enum.Enum):
    """Where a name leads to.

    ``ABSENT`` begins with a workspace and goes on with what is none.
    """

    UNQUALIFIED = enum.auto()
    SESSION = enum.auto()
    WORKSPACE = enum.auto()
    ABSENT = enum.auto()
    SPARK = enum.auto()


@dataclass(frozen=True, slots=True)
class Target:
    """A name, taken apart.

    Attributes:
        kind: Where it leads to.
        schema: All its parts but the last, as written.
        name: Its last part; without leading slashes, as for Drill, but for a name that only Spark knows.
        workspace: Only for ``TargetKind.WORKSPACE``.
    """

    kind: TargetKind
    schema: str
    name: str
    workspace: Workspace | None = None


def parse_target(parts: Sequence[str], workspaces: Workspaces) -> Target:
    """Takes a name of one part or more apart."""
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
    target: Target, record: SessionRecord, workspaces: Workspaces, settings: SessionSettings
) -> TemporaryTable | None:
    """The session's temporary table of that name, ready or not."""
    if target.kind in {TargetKind.SPARK, TargetKind.ABSENT}:
        return None
    if target.workspace is not None and target.workspace is not workspaces.temporary:
        return None
    return next((table for table in record.tables if is_same_name(table.name, target.name, settings)), None)


def is_same_name(one: str, other: str, settings: SessionSettings) -> bool:
    """Names are compared without letter case (seed 001, 5.1.2), unless the session tells Spark otherwise."""
    return settings.comparable_name(one) == settings.comparable_name(other)


def schema_not_found(name: str, workspaces: Workspaces, hint: str = "") -> GatewayError:
    """Return the error for a name that begins with a workspace but names none [temporary-tables §5.4]."""
    return GatewayError(
        "SCHEMA_NOT_FOUND",
        "42704",
        f"Schema [{name}] is not valid with respect to either root schema or current default schema. "
        f"Current default schema: {workspaces.temporary.name}.{hint}",
    )
