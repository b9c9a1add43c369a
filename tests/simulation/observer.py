"""Forwards the events of a world to the invariant checker and the trace."""

from collections.abc import Callable

from tests.simulation.api_server import StoredObject
from tests.simulation.faults import Fault
from tests.simulation.gateways import GatewayProcess
from tests.simulation.invariants import InvariantChecker
from tests.simulation.schedule import Process, Schedule
from workspace.identifiers import SessionUuid, TableUuid


class Observer:
    """Receives each event before any process continues.

    Args:
        schedule: Gives the time and the running process.
        checker: Checks the event.
        gateway_of: Returns the gateway of a process; None for a process of another kind.
        trace: Receives one line for each event; None for no trace.
    """

    def __init__(
        self,
        schedule: Schedule,
        checker: InvariantChecker,
        gateway_of: Callable[[Process], GatewayProcess | None],
        trace: list[str] | None,
    ) -> None:
        self._schedule = schedule
        self._checker = checker
        self._gateway_of = gateway_of
        self._trace = trace

    def on_record_change(self, before: StoredObject | None, after: StoredObject | None) -> None:
        if before is None and after is not None:
            self._check_fencing(f"create the session {after.spec.session_uuid}")
        process = self._schedule.process
        gateway = None if process is None else self._gateway_of(process)
        if gateway is not None and gateway.is_handing_over and before is not None and after is not None:
            self._checker.on_change_while_stopping(gateway, before.spec, after.spec)
        self._checker.on_record_change(before, after)
        if self._trace is not None:
            self.trace(f"{self._schedule.process}: record {_format_object(before)} -> {_format_object(after)}")

    def on_removal(self, session_uuid: SessionUuid, table: TableUuid | None) -> None:
        self.trace(f"{self._schedule.process}: removes {session_uuid} {table or ''}")
        self._checker.on_removal(session_uuid, table)

    def on_location_change(self, action: str, session_uuid: SessionUuid) -> None:
        self.trace(f"{self._schedule.process}: starts to {action} the location {session_uuid}")
        self._check_fencing(f"{action} the location {session_uuid}")
        self._checker.on_location_change(action, session_uuid)

    def on_fault(self, process: Process, fault: Fault, operation: str) -> None:
        self._checker.count(f"fault_{fault.name.lower()}")
        self.trace(f"{process}: {fault.name} at {operation}")

    def count(self, event: str) -> None:
        self._checker.count(event)
        self.trace(event)

    def trace(self, text: str) -> None:
        if self._trace is not None:
            self._trace.append(f"{self._schedule.now:9.3f} {text}")

    def _check_fencing(self, action: str) -> None:
        process = self._schedule.process
        gateway = None if process is None else self._gateway_of(process)
        if gateway is not None and self._schedule.current_worker().was_fenced:
            self._checker.on_fenced_action(gateway, action)


def _format_object(stored: StoredObject | None) -> str:
    if stored is None:
        return "none"
    spec = stored.spec
    tables = ",".join(f"{table.name}:{table.state}:{len(table.writes)}" for table in spec.tables)
    marked = " deleting" if stored.is_deleting else ""
    return f"{spec.session_uuid[:8]} {spec.phase}{marked} {sorted(spec.holders)} [{tables}]"
