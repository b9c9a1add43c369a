"""What the gateway knows about a statement while it decides on it and executes it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.backend_session import BackendSession
from gateway.names.plan_resolver import PlanResolver
from gateway.names.targets import Target, TargetKind, find_temporary_table, parse_target, schema_not_found
from gateway.operations import Operation
from gateway.session_settings import SessionSettings
from gateway.sessions.session import Session
from workspace.records import SessionRecord, TemporaryTable
from workspace.workspaces import Workspace, Workspaces


@dataclass(frozen=True, slots=True)
class Execution:
    """One statement that Lodge executes.

    Attributes:
        session: The session of the client.
        operation: The operation that the client sees.
        backend: The session at the backend.
        settings: The settings of the session when the statement began.
    """

    session: Session
    operation: Operation
    backend: BackendSession
    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class StatementContext:
    """One statement of a client, and the state of its session.

    Attributes:
        execution: The statement's session, operation, backend and settings.
        record: The session record.
        names: The meaning of names in the session.
    """

    execution: Execution
    record: SessionRecord
    names: PlanResolver

    @property
    def backend(self) -> BackendSession:
        return self.execution.backend

    @property
    def settings(self) -> SessionSettings:
        return self.execution.settings

    @property
    def workspaces(self) -> Workspaces:
        return self.names.workspaces

    @property
    def temporary_workspace(self) -> Workspace:
        return self.names.workspaces.temporary

    def table(self, target: Target) -> TemporaryTable | None:
        """Return the session's temporary table that a name means, ready or not."""
        return find_temporary_table(target, self.record, self.workspaces, self.settings)

    def target(self, parts: Sequence[str]) -> Target:
        """Return what a name means."""
        return parse_target(parts, self.workspaces)

    def require_schema(self, target: Target) -> None:
        """Check that a name does not lead to a workspace that does not exist.

        Raises:
            GatewayError: There is no such workspace.
        """
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, self.workspaces)

    async def resolve(self, relation: relations_pb2.Relation) -> relations_pb2.Relation:
        """Return a relation with its names resolved.

        Raises:
            GatewayError: A name cannot be resolved.
        """
        plan = base_pb2.Plan(root=relation)
        await asyncio.to_thread(self.names.resolve, plan)
        return plan.root
