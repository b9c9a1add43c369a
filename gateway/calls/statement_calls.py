"""The RPCs that concern statements: Spark executes them, with resolved names, or Lodge does.

Source: [architecture "Gateway"], [spark-connect-proto base.proto].
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.admission.admission import AdmittedCall
from gateway.auditing.statement_audit import ObservedStatement, StatementAudit
from gateway.backends.backend_answers import MAX_CONTROL_BYTES, decode_answer
from gateway.backends.backend_session import BackendSession
from gateway.backends.forwarding import forward_responses, forward_unary
from gateway.backends.response_releases import ResponseReleases
from gateway.blocking_work.request_pools import RequestPools
from gateway.calls.call import Call, lease_may_return
from gateway.calls.session_calls import pass_unary
from gateway.errors import OPERATION_NOT_FOUND, STORAGE_UNAVAILABLE, GatewayError
from gateway.messages.error_status import condition_of
from gateway.messages.requests import Request
from gateway.messages.statement_request import StatementRequest
from gateway.names.path_checks import PathChecks
from gateway.names.request_resolver import RequestResolver
from gateway.operations.drain import Drain
from gateway.operations.operations import Operation, Operations
from gateway.plans.plan_decoding import PlanDecoder
from gateway.scans.discovery_progress import DiscoveryProgress, is_of_discovery
from gateway.scans.explanations import add_scans_to_analysis
from gateway.scans.kept_statements import KeptStatements
from gateway.scans.lost_discoveries import discovery_lost, prevent_start
from gateway.scans.plannings import Plannings
from gateway.statements.classifier import Classifier
from gateway.statements.computed_texts import evaluate_immediate
from gateway.statements.routes import Change, Scan
from gateway.statements.session_view import SessionViews
from gateway.statements.statement import Statement
from gateway.tables.table_services import TableServices


class StatementCalls:
    """The handlers of the RPCs that execute, analyze, follow, release and interrupt statements.

    Args:
        operations: The operations of this replica.
        services: Executes the statements about tables.
        classifier: Decides what happens to each statement.
        views: Creates the view of a session that a statement needs.
        resolution: Resolves the names in requests.
        plans: Decodes plans.
        paths: The check of the paths in requests.
        audited: The statements whose outcome is recorded in the audit log.
        pools: The threads and the memory for large requests.
        plannings: The statements whose scans are being planned.
        drain: What the gateway hands over when it stops.
    """

    def __init__(
        self,
        *,
        operations: Operations,
        services: TableServices,
        classifier: Classifier,
        views: SessionViews,
        resolution: RequestResolver,
        plans: PlanDecoder,
        paths: PathChecks,
        audited: StatementAudit,
        pools: RequestPools,
        plannings: Plannings,
        drain: Drain,
    ) -> None:
        self._operations = operations
        self._services = services
        self._paths = paths
        self._audited = audited
        self._plannings = plannings
        self._drain = drain
        self._classifier = classifier
        self._views = views
        self._resolution = resolution
        self._plans = plans
        self._pools = pools
        self._kept = KeptStatements()
        self._releases = ResponseReleases()

    async def stop(self) -> None:
        await self._releases.stop()

    async def execute_plan(self, call: Call) -> None:
        await self._execute(call, DiscoveryProgress(call.request, call.context.write, has_started=False))

    async def _execute(self, call: Call, progress: DiscoveryProgress) -> None:
        call.context.start_statement()
        observed = self._audited.begin(call.request)
        call.progress.is_observed = True
        with self._audited.follow(observed) as count:
            try:
                with self._kept.keeping(call.request, progress):
                    result = await self._start_or_resolve(call, observed, progress)
                    if not isinstance(result, Operation):
                        await progress.finish()
            except Exception:
                await progress.finish()
                raise
            if isinstance(result, Operation):
                result.on_end(call.context.keep_statement())
                self._audited.finish_with(result, observed)
                await self._send(result, "", call.context, progress)
            else:
                await forward_responses(
                    call.backend, call.request, result.data, call.context, observe=count, drain=self._drain
                )

    async def _start_or_resolve(
        self, call: Call, observed: ObservedStatement | None, progress: DiscoveryProgress
    ) -> Operation | Request:
        """Return the started operation of a Lodge statement. For other plans, return the request for the backend.

        The plan is in memory only until this method returns, because the result can take hours.
        """
        request = call.request
        plan = await self._plans.read(request)
        if plan is None:
            return request
        view = self._views.of(call.existing, request.read_statement, call.context)
        async with self._plans.reserve(plan):
            decoded = await self._plans.decode(plan)
            self._audited.describe(observed, decoded.plan)
            searched = None if decoded.is_compressed else request.data
            await self._paths.check(searched, [decoded.plan], decoded.size_bytes, decoded.texts)
            statement = Statement(request, decoded, self._pools)
            is_evaluated = await evaluate_immediate(statement, view)
            if is_evaluated:
                await self._paths.check(None, [decoded.plan], decoded.size_bytes, decoded.texts)
            route = await self._classifier.classify(statement, view, progress)
            if isinstance(route, Change):
                decoded.texts.forget()
                self._operations.start(route.operation, route.run)
                return route.operation
            if isinstance(route, Scan):
                return await self._resolution.plan_execution(request, decoded, route.resolver)
            if is_evaluated:
                resolver = await view.resolver(decoded.texts, progress.send)
                return await self._resolution.plan_execution(request, decoded, resolver)
            return request

    async def _send(
        self,
        operation: Operation,
        last_response_id: str,
        context: AdmittedCall,
        progress: DiscoveryProgress | None = None,
    ) -> None:
        async with self._operations.follow(operation):
            if progress is not None:
                await progress.finish()
            async for response in operation.responses(last_response_id):
                await context.write(response)

    async def analyze_plan(self, call: Call) -> bytes:
        data = call.request.data
        read_request = partial(StatementRequest, call.key.client_session_id, call.request.user_context)
        view = self._views.of(call.existing, read_request, call.context)
        resolved = await self._resolution.resolve_analysis(call.key, data, view.resolver)
        answer = await forward_unary(call.backend, call.method, resolved.data, call.context)
        if not resolved.scans:
            return answer
        return await add_scans_to_analysis(answer, resolved.scans, call.backend.address)

    async def reattach_execute(self, call: Call) -> None:
        message = call.request.decode(base_pb2.ReattachExecuteRequest)
        if call.session is not None and is_of_discovery(message.last_response_id):
            kept = await self._kept.find(call.key, call.request.operation_id)
            if kept is not None:
                kept = kept._replace(identity=call.request.identity)
                progress = DiscoveryProgress(kept, call.context.write, has_started=True)
                await self._execute(replace(call, request=kept), progress)
                return
        call.context.follow_statement()
        operation = self._operations.find(call.key, call.request.operation_id)
        unread: GatewayError | None = None
        if operation is None and call.session is not None:
            try:
                with lease_may_return():
                    operation = await self._services.followed.reattach(call.session, message, call.metadata)
            except GatewayError as error:
                if error.condition != STORAGE_UNAVAILABLE or is_of_discovery(message.last_response_id):
                    raise
                unread = error  # without the record, only the backend can know the operation
            if operation is not None:
                self._audited.finish_with(operation, self._audited.reattach(call.request))
        if operation is None:
            observed = self._audited.reattach(call.request)
            with _instead_of_unknown_operation(unread), self._audited.follow(observed) as count:
                request = await self._without_discovery(call, message)
                await forward_responses(
                    call.backend, request, request.data, call.context, observe=count, drain=self._drain
                )
            return
        call.progress.session = None  # the operation can be of an earlier session with the same id
        last_response_id = "" if is_of_discovery(message.last_response_id) else message.last_response_id
        await self._send(operation, last_response_id, call.context)

    async def _without_discovery(self, call: Call, message: base_pb2.ReattachExecuteRequest) -> Request:
        """Return the request to reattach to an operation. The backend does not know the progress of its discovery.

        Raises:
            GatewayError: If the client lost the stream during discovery, so the statement has not begun.
        """
        if call.session is None or not is_of_discovery(message.last_response_id):
            return call.request
        observed = message.HasField("client_observed_server_side_session_id")
        statement = StatementRequest(
            message.session_id,
            call.request.user_context,
            client_type=message.client_type,
            observed_session_id=message.client_observed_server_side_session_id if observed else None,
        )
        if await prevent_start(BackendSession(call.backend, statement, call.metadata), message.operation_id):
            raise discovery_lost()
        message.ClearField("last_response_id")
        return call.request.with_data(message.SerializeToString())

    async def release_execute(self, call: Call) -> bytes:
        message = call.request.decode(base_pb2.ReleaseExecuteRequest)
        operation = self._operations.find(call.key, call.request.operation_id)
        answer = base_pb2.ReleaseExecuteResponse(session_id=message.session_id, operation_id=message.operation_id)
        if is_of_discovery(message.release_until.response_id):
            return answer.SerializeToString()
        if operation is not None:
            if message.HasField("release_until"):
                operation.release_until(message.release_until.response_id)
            else:
                self._operations.release(operation)
            answer.server_side_session_id = operation.server_side_session_id
            return answer.SerializeToString()
        key = (call.key, call.request.operation_id)
        if message.HasField("release_until"):
            self._releases.defer(key, call.backend, call.request.data, call.metadata)
            return answer.SerializeToString()
        self._kept.release(*key)
        self._releases.discard(key, call.backend)
        response = await pass_unary(call)
        self._audited.release(call.request)
        return response

    async def interrupt(self, call: Call) -> bytes:
        message = call.request.decode(base_pb2.InterruptRequest)
        ended = [
            *self._kept.interrupt(call.key, message),
            *await self._plannings.interrupt(call.key, message),
            *await self._operations.interrupt(call.key, message),
        ]
        response = await pass_unary(call)
        address = call.backend.address
        answer = await decode_answer(base_pb2.InterruptResponse, response, address, MAX_CONTROL_BYTES)
        at_backend = list(answer.interrupted_ids)
        if call.session is not None and (at_backend or (message.operation_id and not ended)):
            running_writes = await self._services.followed.running_writes(call.session)
            if message.operation_id in running_writes:  # another replica executes the statement
                message.operation_id = running_writes[message.operation_id]
                response = await forward_unary(call.backend, call.method, message.SerializeToString(), call.context)
                again = await decode_answer(base_pb2.InterruptResponse, response, address, MAX_CONTROL_BYTES)
                at_backend += again.interrupted_ids
            names = {backend_id: client_id for client_id, backend_id in running_writes.items()}
            at_backend = [names.get(each, each) for each in at_backend]
        answer.interrupted_ids[:] = dict.fromkeys((*at_backend, *ended))
        return answer.SerializeToString()


@contextmanager
def _instead_of_unknown_operation(error: GatewayError | None) -> Iterator[None]:
    """Raise an error in place of the backend's error that it does not know an operation."""
    try:
        yield
    except aio.AioRpcError as failure:
        if error is not None and condition_of(failure) == OPERATION_NOT_FOUND:
            raise error from failure
        raise
