"""What can happen to a statement."""

from dataclasses import dataclass

from gateway.names.plan_resolver import PlanResolver
from gateway.operations.operations import Operation, Runner


@dataclass(frozen=True, slots=True)
class Pass:
    """The backend executes the statement as the client sent it."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The backend executes the statement, whose names Lodge has replaced.

    Attributes:
        resolver: Plans the scans of the statement.
    """

    resolver: PlanResolver


@dataclass(frozen=True, slots=True)
class Change:
    """Lodge executes the statement, because it concerns its tables, its workspaces or its sessions.

    Attributes:
        operation: The operation that the client sees. It has not started.
        run: Executes the statement.
    """

    operation: Operation
    run: Runner


Route = Pass | Scan | Change
