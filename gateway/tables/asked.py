"""A statement that may be Lodge's, with what is known of its session."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.backend_session import BackendSession
from gateway.names.plan_resolver import PlanResolver
from gateway.names.targets import Target, target_of, temporary_table
from gateway.session_settings import SessionSettings
from gateway.tables.writes import Execution
from workspace.records import SessionRecord, TemporaryTable
from workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks for.

    Attributes:
        execution: Session, operation, backend and settings.
        record: The session's.
        names: What names mean in the session.
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

    def table(self, target: Target) -> TemporaryTable | None:
        """The session's temporary table of that name."""
        return temporary_table(target, self.record, self.workspaces, self.settings)

    def target(self, parts: Sequence[str]) -> Target:
        return target_of(parts, self.workspaces)

    async def resolved(self, relation: relations_pb2.Relation) -> relations_pb2.Relation:
        """A relation with its names resolved. Raises: GatewayError."""
        plan = base_pb2.Plan(root=relation)
        await asyncio.to_thread(self.names.resolve, plan)
        return plan.root
