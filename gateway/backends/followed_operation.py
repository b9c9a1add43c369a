"""The state of an operation that Lodge follows at a backend, and the choice of the next call.

A reset of the connection leaves open whether the backend has received the plan. This module decides when to reattach to
the operation, when to send the plan again, and when to give up.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql.connect.proto import base_pb2

from gateway.backends.session_channel import is_reset
from gateway.errors import OPERATION_NOT_FOUND, BackendError
from gateway.messages.error_status import condition_of

REATTACH_SECONDS = 60.0
"""How long Lodge tries to reattach to a running operation after a reset of the connection.

Spark keeps an operation that nobody follows for five minutes.
"""

START_SECONDS = 30.0
"""How long Lodge tries to start an operation after a reset of the connection."""

_MAX_MESSAGES = 1_000  # without rows, and the following number in each second; Spark sends one in two seconds
_MAX_MESSAGES_A_SECOND = 10
_MAX_METRICS = 1_000
_MAX_METRIC_BYTES = 16 * 1024 * 1024
_MAX_NAME_CHARACTERS = 1024 * 1024  # the names of all observed metrics
_MAX_ID_CHARACTERS = 1024
_KNOWN_OPERATION = "INVALID_HANDLE.OPERATION_ALREADY_EXISTS"

Execution = base_pb2.ExecutePlanRequest | base_pb2.ReattachExecuteRequest
OnRows = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result of an execution, without the rows.

    Attributes:
        observed: The first value of each observed metric, by name.
        server_side_session_id: The session id that the backend generated.
        answer: The result of a SQL command. Empty for other plans.
        metrics: The observed metrics, with all their values.
    """

    observed: dict[str, int]
    server_side_session_id: str
    answer: base_pb2.ExecutePlanResponse = field(default_factory=base_pb2.ExecutePlanResponse)
    metrics: Sequence[base_pb2.ExecutePlanResponse.ObservedMetrics] = ()


@dataclass(slots=True)
class FollowedOperation:
    """The state of an operation that is being followed.

    Attributes:
        method: The method of the next call.
        request: The request of the next call.
        reattach: The request for reattaching after the last response.
        plan: The request with the plan. None if the backend has received the plan.
        on_rows: A function that is called with each batch of rows, as a stream in Arrow's IPC format.
        is_complete: Whether the operation has ended.
        reset: The error of the last reset of the connection.
    """

    method: str
    request: Execution
    reattach: base_pb2.ReattachExecuteRequest
    plan: base_pb2.ExecutePlanRequest | None
    on_rows: OnRows | None = None
    is_complete: bool = False
    reset: BackendError | None = None
    _failing_since: float | None = None
    _begun: float = 0.0
    _messages: int = 0
    _name_characters: int = 0
    _metrics: dict[str, base_pb2.ExecutePlanResponse.ObservedMetrics] = field(default_factory=dict)
    _metric_bytes: int = 0
    _server_side_session_id: str = ""
    _answer: base_pb2.ExecutePlanResponse = field(default_factory=base_pb2.ExecutePlanResponse)

    def __post_init__(self) -> None:
        self._begun = time.monotonic()

    def is_given_up(self) -> bool:
        """Return whether the connection has been failing for too long since the last response."""
        limit_seconds = REATTACH_SECONDS if self.plan is None else START_SECONDS
        return self._failing_since is not None and time.monotonic() - self._failing_since > limit_seconds

    def count_reset(self, error: BackendError) -> None:
        """Record a reset of the connection. The next call reattaches."""
        self.reset = error
        self._failing_since = self._failing_since or time.monotonic()
        self.reattach_next()

    def count_empty_stream(self) -> None:
        """Record that the backend ended a stream at once, before it sent a response."""
        self._failing_since = self._failing_since or time.monotonic()

    def reattach_next(self) -> None:
        """Let the next call reattach to the operation."""
        self.method, self.request = "ReattachExecute", self.reattach

    def choose_next(self, condition: str, server_side_session_id: str) -> None:
        """Choose the next call after an answer of the backend that is not a reset.

        Args:
            condition: The condition of the answer.
            server_side_session_id: The session to which the plan belongs. Empty if it is not known.
        """
        if self.plan is not None and self.reset is not None and condition == OPERATION_NOT_FOUND:
            self.plan.client_observed_server_side_session_id = server_side_session_id
            self.method, self.request = "ExecutePlan", self.plan
        else:
            self.reattach_next()

    def may_continue(self, error: BackendError) -> bool:
        """Return whether another call can continue the operation after an error."""
        in_doubt = self.plan is not None and self.reset is not None
        return is_reset(error.error) or (
            in_doubt and condition_of(error.error) in (OPERATION_NOT_FOUND, _KNOWN_OPERATION)
        )

    def take(self, response: base_pb2.ExecutePlanResponse) -> bool:
        """Record a response.

        Returns:
            False if the backend has sent more messages, or longer names, than Spark would.
        """
        self._messages += self.on_rows is None or not response.arrow_batch.row_count
        observed = len(self._metrics) + len(response.observed_metrics)
        self._name_characters += sum(len(metrics.name) for metrics in response.observed_metrics)
        longest_id = max(len(response.response_id), len(response.server_side_session_id))
        if self._name_characters > _MAX_NAME_CHARACTERS or longest_id > _MAX_ID_CHARACTERS:
            return False
        allowed = _MAX_MESSAGES + _MAX_MESSAGES_A_SECOND * (time.monotonic() - self._begun)
        if self._messages > allowed or observed > _MAX_METRICS or self._metric_bytes > _MAX_METRIC_BYTES:
            return False
        self.plan = self._failing_since = None
        if response.response_id:
            self.reattach.last_response_id = response.response_id
        self._server_side_session_id = response.server_side_session_id or self._server_side_session_id
        for metrics in response.observed_metrics:
            if metrics.values:
                self._metrics[metrics.name] = metrics
                self._metric_bytes += metrics.ByteSize()
        if response.HasField("sql_command_result"):
            self._answer.sql_command_result.CopyFrom(response.sql_command_result)
        self.is_complete = response.HasField("result_complete")
        return True

    def result(self) -> ExecutionResult:
        """Return the result of the operation."""
        observed = {name: metrics.values[0].long for name, metrics in self._metrics.items()}
        return ExecutionResult(observed, self._server_side_session_id, self._answer, tuple(self._metrics.values()))
