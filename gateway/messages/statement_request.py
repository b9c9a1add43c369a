"""What Lodge needs to know of the request of a statement, to execute it and to call the backend on its behalf."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from pyspark.sql.connect.proto import base_pb2

from workspace.identifiers import ClientSessionId, Principal


@dataclass(frozen=True, slots=True)
class StatementRequest:
    """A statement of a client, without its plan.

    Attributes:
        session_id: The session of the client.
        user_context: The user for the backend.
        operation_id: The operation. Empty if the client has not chosen an id.
        client_type: The client type.
        tags: The operation tags.
        observed_session_id: The id of the session at the backend that the client has observed. None if there is none.
        is_reattachable: Whether the client can reattach to the operation.
    """

    session_id: str
    user_context: base_pb2.UserContext = field(default_factory=base_pb2.UserContext)
    operation_id: str = ""
    client_type: str = ""
    tags: Sequence[str] = ()
    observed_session_id: str | None = None
    is_reattachable: bool = False

    @classmethod
    def of_principal(cls, principal: Principal, session_id: ClientSessionId, operation_id: str) -> Self:
        """Return the request for an operation that a replica completes without its client."""
        user_context = base_pb2.UserContext(user_id=principal)
        return cls(session_id, user_context, operation_id, is_reattachable=True)

    def with_operation_id(self) -> Self:
        """Return the statement with an operation id, which is new if the client has not chosen one."""
        return replace(self, operation_id=self.operation_id or str(uuid.uuid4()))

    @classmethod
    def read(cls, request: base_pb2.ExecutePlanRequest) -> Self:
        """Return what Lodge needs of a request."""
        observed = request.client_observed_server_side_session_id
        return cls(
            request.session_id,
            request.user_context,
            request.operation_id,
            request.client_type,
            tuple(request.tags),
            observed if request.HasField("client_observed_server_side_session_id") else None,
            any(option.reattach_options.reattachable for option in request.request_options),
        )
