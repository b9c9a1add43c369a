"""The data that the gateway needs to classify and execute a statement."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.connect.proto import base_pb2, relations_pb2

from gateway.backends.backend_session import BackendSession
from gateway.backends.session_settings import SessionSettings
from gateway.blocking_work.pools import Pool
from gateway.messages.error_status import Metadata
from gateway.messages.identity import Identity
from gateway.messages.statement_request import StatementRequest
from gateway.names.plan_resolver import PlanResolver
from gateway.names.targets import Target, TargetKind, find_temporary_table, parse_target, schema_not_found
from gateway.operations.operations import Operation
from gateway.scans.scan_summary import ScanSummary
from gateway.sessions.session import Session
from workspace.records import SessionRecord, TemporaryTable
from workspace.workspaces import Workspace, Workspaces


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a Lodge statement.

    Attributes:
        session: The session of the client.
        operation: The operation that the client sees.
        backend: The session at the backend.
        settings: The session settings when the statement started.
        identity: The identity of the request. None without an authentication method.
    """

    session: Session
    operation: Operation
    backend: BackendSession
    settings: SessionSettings
    identity: Identity | None = None


def execution_of(session: Session, request: StatementRequest, metadata: Metadata) -> Execution:
    """Return the execution of a statement that does not need the session settings."""
    return Execution(session, Operation(request), BackendSession(session.backend, request, metadata), SessionSettings())


@dataclass(frozen=True, slots=True)
class StatementContext:
    """A client statement and the state of its session.

    Attributes:
        execution: The session, operation, backend and settings of the statement.
        record: The session record.
        names: The resolver for names in the session.
        workspace_reads: The pool for reads of the files in workspaces.
    """

    execution: Execution
    record: SessionRecord
    names: PlanResolver
    workspace_reads: Pool

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
        """Return the temporary table of the session that a name refers to.

        The table may still be in creation or in deletion.
        """
        return find_temporary_table(target, self.record.tables, self.workspaces, self.settings)

    def target(self, parts: Sequence[str]) -> Target:
        """Return what a name refers to."""
        return parse_target(parts, self.workspaces)

    def require_schema(self, target: Target) -> None:
        """Check that a name does not refer to a workspace that does not exist.

        Raises:
            GatewayError: If the workspace does not exist.
        """
        if target.kind is TargetKind.ABSENT:
            raise schema_not_found(target.schema, self.workspaces)

    async def resolve(self, relation: relations_pb2.Relation) -> relations_pb2.Relation:
        """Return a relation with all names resolved, and all scans planned.

        Raises:
            GatewayError: If a name cannot be resolved, or a scan cannot be planned.
        """
        plan = base_pb2.Plan()
        plan.root.CopyFrom(relation)
        return (await self.resolve_plan(plan)).root

    async def resolve_plan(self, plan: base_pb2.Plan) -> base_pb2.Plan:
        """Return a plan with all names resolved, and all scans planned.

        Raises:
            GatewayError: If a name cannot be resolved, or a scan cannot be planned.
        """
        resolved = base_pb2.Plan()
        resolved.CopyFrom(plan)
        names = await self.names.with_file_metadata(resolved)
        await self.workspace_reads.run_or_abandon(names.resolve, resolved)
        await names.plan_scans(resolved)
        return resolved

    async def resolve_explanation(
        self, relation: relations_pb2.Relation
    ) -> tuple[relations_pb2.Relation, Sequence[ScanSummary]]:
        """Return an ``EXPLAIN`` statement with all names resolved and all scans planned, and what is known about them.

        Raises:
            GatewayError: If a name cannot be resolved, or a scan cannot be planned.
        """
        return await self._resolve_statement(relation)

    async def resolve_statement(self, relation: relations_pb2.Relation) -> relations_pb2.Relation:
        """Return a SQL statement with all names resolved and all scans planned.

        Raises:
            GatewayError: If a name cannot be resolved, or a scan cannot be planned.
        """
        resolved, _ = await self._resolve_statement(relation)
        return resolved

    async def _resolve_statement(
        self, relation: relations_pb2.Relation
    ) -> tuple[relations_pb2.Relation, Sequence[ScanSummary]]:
        command = base_pb2.Plan()
        command.command.sql_command.input.CopyFrom(relation)
        names = await self.names.with_file_metadata(command)
        await self.workspace_reads.run_or_abandon(names.resolve, command)
        plan = base_pb2.Plan()
        plan.root.CopyFrom(command.command.sql_command.input)
        return plan.root, await names.plan_scans(plan)
