"""Simulated clients, which behave like PySpark.

They choose operation ids, and reattach at any gateway. Many failures need a client that returns:

- to the same gateway while that gateway ends its session
- to another gateway while the first one is paused
- with a statement that is half done
"""

import random
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import grpc
from pyspark.sql.connect.proto import base_pb2

from tests.simulation.gateways import GatewayProcess, Outcome
from tests.simulation.invariants import InvariantChecker, Statement
from tests.simulation.schedule import Process
from workspace.identifiers import ClientSessionId, Principal, record_name

_CALL_SECONDS = 20.0
_ATTEMPTS = 4
_HEARTBEAT_SECONDS = 5.0
_SESSION_GONE = "INVALID_HANDLE.SESSION_"
_TABLES = ("a", "b")
_UNKNOWN_OUTCOME = {
    "INVALID_HANDLE.OPERATION_ALREADY_EXISTS",
    "LODGE_STATEMENT_UNFINISHED",
    "LODGE_STORAGE_UNAVAILABLE",
    "OPERATION_CANCELED",
}
"""Errors after which the client does not know the outcome. As in Spark, a statement may end as it is interrupted."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a client does.

    Attributes:
        statements: The number of statements in a session.
        longest_pause_seconds: The longest time between two statements.
        stays_open: Whether the client keeps each session open after its statements.
        threads: The number of threads that share a session.
    """

    statements: int
    longest_pause_seconds: float
    stays_open: bool
    threads: int


class SessionGoneError(Exception):
    """The client's session has ended."""


class Client:
    """A simulated client.

    Args:
        process: Its process.
        user_id: Its principal.
        workload: What it does.
        gateways: Returns the gateways that a load balancer can choose.
        checker: Receives what the client sees.
        travel_seconds: Returns the travel time of a message.
        faults_are_over: Returns whether the settling phase has begun. Then no new session starts.
    """

    def __init__(
        self,
        *,
        process: Process,
        user_id: str,
        workload: Workload,
        gateways: Callable[[], Sequence[GatewayProcess]],
        checker: InvariantChecker,
        travel_seconds: Callable[[], float],
        faults_are_over: Callable[[], bool],
    ) -> None:
        self._process = process
        self._schedule = process.schedule
        self._random: random.Random = process.schedule.random
        self._user_id = user_id
        self._workload = workload
        self._gateways = gateways
        self._checker = checker
        self._travel_seconds = travel_seconds
        self._faults_are_over = faults_are_over
        self._gateway: GatewayProcess | None = None

    def run(self) -> None:
        """Run one session after another until the faults are over."""
        while not self._faults_are_over():
            session_id = str(uuid.uuid4())
            try:
                self._run_session(session_id)
            except SessionGoneError:
                self._checker.count("client_lost_session")

    def _run_session(self, session_id: str) -> None:
        others = [self._random.random() < 0.5 for _ in range(self._workload.threads - 1)]
        for _ in others:
            self._process.start(lambda: self._run_second_thread(session_id), self._random.random() * 5)
        self._run_statements(session_id, self._workload.statements)
        if self._workload.stays_open:
            while not self._closes_early():
                self._send_heartbeat(session_id)
                self._schedule.wait(_HEARTBEAT_SECONDS)
        elif self._random.random() < 0.5:
            self._checker.expect_end(self._user_id, session_id, "its client")
            self._call("ReleaseSession", _release_request(self._user_id, session_id))
        else:
            self._schedule.wait(self._random.random() * 10)

    def _closes_early(self) -> bool:
        """Decide whether to end an open session now; never after the faults are over."""
        return not self._faults_are_over() and self._random.random() < 0.02

    def _run_second_thread(self, session_id: str) -> None:
        try:
            self._run_statements(session_id, 2)
        except SessionGoneError:
            self._checker.count("client_lost_session")

    def _run_statements(self, session_id: str, number: int) -> None:
        for _ in range(number):
            if self._faults_are_over():
                return
            chance = self._random.random()
            table = self._random.choice(_TABLES)
            if chance < 0.45:
                self._execute(session_id, table, f"CREATE TEMPORARY TABLE {table} AS SELECT 1 AS id")
            elif chance < 0.56:
                self._execute(session_id, table, f"INSERT INTO {table} SELECT 2 AS id")
            elif chance < 0.62:
                self._execute(session_id, table, f"INSERT OVERWRITE {table} SELECT 3 AS id")
            elif chance < 0.68:
                self._execute(session_id, table, f"UPDATE {table} SET id = 4L WHERE id = 2")
            elif chance < 0.71:
                self._execute(session_id, table, f"ALTER TABLE {table} ADD COLUMN x bigint")
            elif chance < 0.74:
                self._execute(session_id, table, f"CREATE OR REPLACE TEMPORARY TABLE {table} AS SELECT 5 AS id")
            elif chance < 0.8:
                self._execute(session_id, table, f"DROP TABLE {table}")
            else:
                self._send_heartbeat(session_id)
            self._schedule.wait(self._random.random() ** 3 * self._workload.longest_pause_seconds)

    def _send_heartbeat(self, session_id: str) -> None:
        request = base_pb2.ConfigRequest(session_id=session_id)
        request.user_context.user_id = self._user_id
        request.operation.get_with_default.pairs.add(key="a", value="b")
        self._call("Config", request.SerializeToString())

    def _execute(self, session_id: str, table: str, sql: str) -> None:
        """Run a statement, and follow it to its end at any gateway."""
        operation_id = str(uuid.uuid4())
        statement = Statement(
            record=record_name(Principal(self._user_id), ClientSessionId(session_id)),
            session_uuid=self._checker.find_session(self._user_id, session_id),
            operation_id=operation_id,
            table=table,
            started_seconds=self._schedule.now,
        )
        is_drop = sql.startswith("DROP")
        if is_drop:
            self._checker.on_drop_started(statement)
        request = base_pb2.ExecutePlanRequest(session_id=session_id, operation_id=operation_id)
        request.user_context.user_id = self._user_id
        request.request_options.add().reattach_options.reattachable = True
        request.plan.command.sql_command.input.sql.query = sql
        execute_data = request.SerializeToString()
        reattach = base_pb2.ReattachExecuteRequest(session_id=session_id, operation_id=operation_id)
        reattach.user_context.user_id = self._user_id
        reattach_data = reattach.SerializeToString()
        method, data = "ExecutePlan", execute_data
        is_duplicated = self._random.random() < 0.15
        if is_duplicated:
            self._process.start(lambda: self._send_duplicate(execute_data), self._random.random() * 0.5)
        if self._random.random() < 0.1:
            self._interrupt_later(session_id, operation_id)
        for _ in range(_ATTEMPTS):
            outcome = self._call(method, data)
            if outcome.error is None:
                self._checker.count("statement_completed")
                if sql.startswith("CREATE") and outcome.responses:
                    self._checker.count("table_created")
                    self._checker.on_table_created(statement)
                elif is_drop:
                    self._checker.on_drop_completed(statement)
                self._release_operation(session_id, operation_id)
                return
            code, text = outcome.error
            if "OPERATION_NOT_FOUND" in text:
                method, data = "ExecutePlan", execute_data
                is_duplicated = True  # the gateway that received it first may still execute it
            elif code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
                method, data = "ReattachExecute", reattach_data
            else:
                self._checker.count("statement_failed")
                condition = text[1:].partition("]")[0] if text.startswith("[") else ""
                if condition and condition not in _UNKNOWN_OUTCOME and not is_duplicated:
                    self._checker.on_statement_refused(statement, condition)
                return
        self._checker.count("statement_abandoned")

    def _release_operation(self, session_id: str, operation_id: str) -> None:
        request = base_pb2.ReleaseExecuteRequest(session_id=session_id, operation_id=operation_id)
        request.user_context.user_id = self._user_id
        request.release_all.SetInParent()
        self._call("ReleaseExecute", request.SerializeToString())

    def _send_duplicate(self, data: bytes) -> None:
        """Send a statement again, perhaps to another gateway, as a proxy that retries does."""
        self._checker.count("duplicate_sent")
        with suppress(SessionGoneError):
            self._call("ExecutePlan", data, self._random.choice(self._gateways() or [None]))

    def _interrupt_later(self, session_id: str, operation_id: str) -> None:
        request = base_pb2.InterruptRequest(session_id=session_id, operation_id=operation_id)
        request.interrupt_type = base_pb2.InterruptRequest.INTERRUPT_TYPE_OPERATION_ID
        request.user_context.user_id = self._user_id
        data = request.SerializeToString()

        def interrupt() -> None:
            self._checker.on_interrupt(operation_id)
            try:
                self._call("Interrupt", data)
            except SessionGoneError:
                self._checker.count("client_lost_session")

        self._process.start(interrupt, self._random.random() * 2)

    def _call(self, method: str, data: bytes, gateway: GatewayProcess | None = None) -> Outcome:
        """Make one call, by default at the gateway of the previous call if that still serves.

        Raises:
            SessionGoneError: The session has ended.
        """
        schedule, outcome = self._schedule, Outcome()
        if gateway is None:
            gateways = self._gateways()
            if self._gateway not in gateways or self._random.random() < 0.05:
                self._gateway = self._random.choice(gateways) if gateways else None
            gateway = self._gateway
        if gateway is None:
            schedule.wait(1.0)
            outcome.end((grpc.StatusCode.UNAVAILABLE, "No gateway is running."))
            return outcome

        def time_out() -> None:
            if not outcome.is_over:
                self._gateway = None
                gateway.cancel_call(outcome)
                outcome.end((grpc.StatusCode.DEADLINE_EXCEEDED, "The client's deadline has passed."))

        def send(wake: Callable[[], object]) -> None:
            outcome.wake = lambda: schedule.after(self._travel_seconds(), wake)
            schedule.after(self._travel_seconds(), lambda: gateway.serve(method, data, outcome))
            schedule.after(_CALL_SECONDS, time_out)

        schedule.park(send)
        if outcome.error is not None:
            code, text = outcome.error
            self._checker.count(f"client_error_{text[1:].partition(']')[0] if text.startswith('[') else code.name}")
            if _SESSION_GONE in text:
                raise SessionGoneError(text)
            if code is grpc.StatusCode.UNAVAILABLE:
                self._gateway = None
                schedule.wait(0.2)
        return outcome


def _release_request(user_id: str, session_id: str) -> bytes:
    request = base_pb2.ReleaseSessionRequest(session_id=session_id)
    request.user_context.user_id = user_id
    return request.SerializeToString()
