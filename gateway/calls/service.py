"""The gRPC service ``SparkConnectService``: which handler processes each RPC.

All methods are registered as methods with a stream of requests. gRPC then calls the handler before it reads a message.
The handler authenticates and admits the caller first (:mod:`gateway.calls.door`). Therefore a caller who is refused
occupies no memory for messages.

- Most RPCs are forwarded unchanged.
- ``ExecutePlan`` and ``AnalyzePlan`` requests can contain names that Lodge resolves, or Lodge statements.
- RPCs that concern an operation or a session are processed by both Lodge and the backend.

Source: [architecture "Gateway"], [spark-connect-proto base.proto].
"""

from typing import Any

import grpc

from gateway.admission.admission import Admission
from gateway.auditing.statement_audit import StatementAudit
from gateway.authentication.authenticator import Authenticator
from gateway.backends.backend_failures import BackendFailures
from gateway.backends.backends import SERVICE
from gateway.blocking_work.current_work import CurrentWork
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.calls.call import Handler
from gateway.calls.door import Door
from gateway.calls.session_calls import SessionCalls, pass_stream, pass_unary
from gateway.calls.statement_calls import StatementCalls
from gateway.names.path_checks import PathChecks
from gateway.names.request_resolver import RequestResolver
from gateway.operations.drain import Drain
from gateway.operations.operations import Operations
from gateway.plans.plan_decoding import PlanDecoder
from gateway.scans.planner import ScanPlanner
from gateway.scans.plannings import Plannings
from gateway.sessions.registry import Sessions
from gateway.statements.classifier import Classifier
from gateway.statements.session_view import SessionViews
from gateway.tables.table_services import TableServices


class SparkConnectService(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    """The handlers of all ``SparkConnectService`` methods, including unknown methods.

    Args:
        authenticator: Decides who sent a call.
        admission: The limits on what callers use at the same time.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        services: Executes the statements about tables.
        planner: Plans the scans of statements.
        workspaces: The configured workspaces.
        paths: The check of the paths in requests.
        audited: The statements whose outcome is recorded in the audit log.
        pools: The threads and the memory for large requests.
        plannings: The statements whose scans are being planned.
        drain: What the gateway hands over when it stops.
        work: The memory in which the gateway notes on which requests it works.
        log_query_text: Whether the log contains the text of each statement that Lodge recognises.

    Attributes:
        methods: The handlers of the known methods.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        admission: Admission,
        sessions: Sessions,
        operations: Operations,
        services: TableServices,
        planner: ScanPlanner,
        workspaces: CurrentWorkspaces,
        paths: PathChecks,
        audited: StatementAudit,
        pools: RequestPools,
        plannings: Plannings,
        drain: Drain,
        work: CurrentWork,
        log_query_text: bool,
    ) -> None:
        failures = BackendFailures()
        self._door = Door(
            authenticator=authenticator,
            admission=admission,
            sessions=sessions,
            operations=operations,
            audited=audited,
            failures=failures,
            pools=pools,
            drain=drain,
            work=work,
        )
        plans = PlanDecoder(pools)
        resolution = RequestResolver(workspaces, paths, pools, plannings, plans)
        self._statements = of_statement = StatementCalls(
            operations=operations,
            services=services,
            classifier=Classifier(
                sessions=sessions,
                workspaces=workspaces,
                services=services,
                resolution=resolution,
                plannings=plannings,
                log_query_text=log_query_text,
            ),
            views=SessionViews(services, workspaces, planner),
            resolution=resolution,
            plans=plans,
            paths=paths,
            audited=audited,
            pools=pools,
            plannings=plannings,
            drain=drain,
        )
        of_session = SessionCalls(
            sessions=sessions, operations=operations, services=services, paths=paths, failures=failures
        )
        unary: dict[str, Handler] = {
            "AddArtifacts": of_session.add_artifacts,
            "AnalyzePlan": of_statement.analyze_plan,
            "ArtifactStatus": pass_unary,
            "CloneSession": of_session.clone_session,
            "Config": of_session.config,
            "FetchErrorDetails": of_session.fetch_error_details,
            "GetStatus": pass_unary,
            "Interrupt": of_statement.interrupt,
            "ReleaseExecute": of_statement.release_execute,
            "ReleaseSession": of_session.release_session,
        }
        streaming: dict[str, Handler] = {
            "ExecutePlan": of_statement.execute_plan,
            "ReattachExecute": of_statement.reattach_execute,
        }
        self.methods = {
            **{
                name: grpc.stream_unary_rpc_method_handler(self._door.handler(name, each))
                for name, each in unary.items()
            },
            **{
                name: grpc.stream_stream_rpc_method_handler(self._door.handler(name, each))
                for name, each in streaming.items()
            },
        }

    async def stop(self) -> None:
        await self._statements.stop()

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method. Calls of unknown methods are only forwarded."""
        path: str = handler_call_details.method
        if not path.startswith(SERVICE):
            return None
        name = path.removeprefix(SERVICE)
        known = self.methods.get(name)
        return known or grpc.stream_stream_rpc_method_handler(self._door.handler(name, pass_stream))
