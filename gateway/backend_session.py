"""Calls that Lodge itself makes in a client's session, to do what a statement says.

Why it exists: a statement that Lodge answers becomes calls to the client's own backend session, with the client's
user context and metadata. The backend may end a result stream early (its streams are limited in time and size), so
following an operation to its end is done here once.

Source: Spark: ExecuteGrpcResponseSender (a stream that ends without ``result_complete`` must be reattached).
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from grpc import aio
from pyspark.sql.connect.proto import base_pb2, relations_pb2
from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type
from pyspark.sql.types import StructType

from gateway.backends import SERVICE, Backend
from gateway.errors import BackendError, LodgeError, Metadata
from gateway.session_settings import SETTINGS_ASKED_FOR, SessionSettings

OnProgress = Callable[[base_pb2.ExecutePlanResponse], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What an execution told beside its rows.

    Attributes:
        observed: Observed metrics by name: the first value of each.
        server_side_session_id: The backend's own name of the session.
    """

    observed: dict[str, int]
    server_side_session_id: str


class BackendSession:
    """A client's session at its backend.

    Args:
        backend: Where it is.
        request: The client's request that Lodge answers; gives session, user context and tags.
        metadata: The metadata of the client's request.
    """

    def __init__(self, backend: Backend, request: base_pb2.ExecutePlanRequest, metadata: Metadata) -> None:
        self._backend = backend
        self._request = request
        self._metadata = metadata

    async def schema(self, relation: relations_pb2.Relation) -> StructType:
        """The schema of a relation. Raises: BackendError with the analysis error."""
        request = base_pb2.AnalyzePlanRequest(
            session_id=self._request.session_id,
            user_context=self._request.user_context,
            client_type=self._request.client_type,
        )
        request.schema.plan.root.CopyFrom(relation)
        data = await self._call("AnalyzePlan", request.SerializeToString())
        schema = proto_schema_to_pyspark_data_type(base_pb2.AnalyzePlanResponse.FromString(data).schema.schema)
        if not isinstance(schema, StructType):
            raise TypeError(f"A relation's schema is a struct, not {schema.typeName()}.")
        return schema

    async def table_exists(self, unparsed_identifier: str) -> bool:
        """Whether Spark finds a table or view of this name now."""
        relation = relations_pb2.Relation()
        relation.read.named_table.unparsed_identifier = unparsed_identifier
        try:
            await self.schema(relation)
        except BackendError as error:
            if "TABLE_OR_VIEW_NOT_FOUND" in str(error.error.details()):
                return False
            raise
        return True

    async def drop_temp_view(self, name: str) -> None:
        """Drops a temporary view; that there is none is no error."""
        plan = base_pb2.Plan()
        plan.root.catalog.drop_temp_view.view_name = name
        await self.execute(plan)

    async def settings(self) -> SessionSettings:
        """The settings of the session that change what its statements mean."""
        request = base_pb2.ConfigRequest(session_id=self._request.session_id, user_context=self._request.user_context)
        for key, default in SETTINGS_ASKED_FOR.items():
            pair = request.operation.get_with_default.pairs.add()
            pair.key, pair.value = key, default
        data = await self._call("Config", request.SerializeToString())
        pairs = base_pb2.ConfigResponse.FromString(data).pairs
        return SessionSettings.from_values({pair.key: pair.value for pair in pairs})

    async def execute(
        self, plan: base_pb2.Plan, *, operation_id: str = "", on_progress: OnProgress | None = None
    ) -> ExecutionResult:
        """Runs a plan to its end.

        Args:
            plan: What to run.
            operation_id: The id under which the client may interrupt it; a new one if empty.
            on_progress: Gets each progress message.

        Raises: BackendError.
        """
        request = base_pb2.ExecutePlanRequest(
            session_id=self._request.session_id,
            user_context=self._request.user_context,
            client_type=self._request.client_type,
            operation_id=operation_id or str(uuid.uuid4()),
            tags=self._request.tags,
            plan=plan,
        )
        request.request_options.add().reattach_options.reattachable = True
        observed: dict[str, int] = {}
        server_side_session_id = ""
        async for response in self._responses(request):
            server_side_session_id = response.server_side_session_id or server_side_session_id
            for metrics in response.observed_metrics:
                if metrics.values:
                    observed[metrics.name] = metrics.values[0].long
            if on_progress is not None and response.HasField("execution_progress"):
                await on_progress(response)
        return ExecutionResult(observed, server_side_session_id)

    async def _responses(self, request: base_pb2.ExecutePlanRequest) -> AsyncIterator[base_pb2.ExecutePlanResponse]:
        method, data, last_response_id = "ExecutePlan", request.SerializeToString(), ""
        try:
            while True:
                async for response in self._stream(method, data):
                    last_response_id = response.response_id
                    yield response
                    if response.HasField("result_complete"):
                        return
                reattach = base_pb2.ReattachExecuteRequest(
                    session_id=request.session_id,
                    user_context=request.user_context,
                    operation_id=request.operation_id,
                )
                if last_response_id:
                    reattach.last_response_id = last_response_id
                method, data = "ReattachExecute", reattach.SerializeToString()
        except (asyncio.CancelledError, GeneratorExit):
            await self._interrupt(request.operation_id)
            raise
        finally:
            await self._release(request)

    async def _stream(self, method: str, data: bytes) -> AsyncIterator[base_pb2.ExecutePlanResponse]:
        call = self._backend.unary_stream(SERVICE + method)(data, metadata=self._metadata)
        try:
            async for response in call:
                yield base_pb2.ExecutePlanResponse.FromString(response)
        except aio.AioRpcError as error:
            raise BackendError(error, self._backend.address) from error
        finally:
            call.cancel()

    async def _interrupt(self, operation_id: str) -> None:
        """Ends an operation at the backend; releasing one that still runs would leave its jobs running."""
        request = base_pb2.InterruptRequest(
            session_id=self._request.session_id,
            user_context=self._request.user_context,
            interrupt_type=base_pb2.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID,
            operation_id=operation_id,
        )
        with contextlib.suppress(LodgeError):
            await self._call("Interrupt", request.SerializeToString())

    async def _release(self, request: base_pb2.ExecutePlanRequest) -> None:
        release = base_pb2.ReleaseExecuteRequest(
            session_id=request.session_id,
            user_context=request.user_context,
            operation_id=request.operation_id,
        )
        release.release_all.SetInParent()
        with contextlib.suppress(LodgeError):  # the backend forgets an operation that nobody releases
            await self._call("ReleaseExecute", release.SerializeToString())

    async def _call(self, method: str, data: bytes) -> bytes:
        try:
            response: bytes = await self._backend.unary(SERVICE + method)(data, metadata=self._metadata)
        except aio.AioRpcError as error:
            raise BackendError(error, self._backend.address) from error
        return response


def schema_json(schema: StructType) -> str:
    """A schema as Spark reads it back."""
    return json.dumps(schema.jsonValue())
