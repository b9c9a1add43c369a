"""Passes on what happens in a world, to those who check it and to those who read it."""

from collections.abc import Callable

from tests.simulation.api_server import Stored
from tests.simulation.faults import Fault
from tests.simulation.gateways import GatewayProcess
from tests.simulation.invariants import Ledger
from tests.simulation.schedule import Process, Schedule
from workspace.records import SessionUuid, TableUuid


class Observer:
    """Told of everything before anyone else acts.

    Args:
        schedule: Says when, and who.
        ledger: Checks it.
        gateway_of: The gateway that a process is; None if it is none.
        trace: Takes a line for each thing that happens; None for no trace.
    """

    def __init__(
        self,
        schedule: Schedule,
        ledger: Ledger,
        gateway_of: Callable[[Process], GatewayProcess | None],
        trace: list[str] | None,
    ) -> None:
        self._schedule = schedule
        self._ledger = ledger
        self._gateway_of = gateway_of
        self._trace = trace

    def record_changed(self, before: Stored | None, after: Stored | None) -> None:
        if before is None and after is not None:
            self._acted(f"create the session {after.spec.session_uuid}")
        self._ledger.record_changed(before, after)
        if self._trace is not None:
            self.tell(f"{self._schedule.process}: record {_short(before)} -> {_short(after)}")

    def removed(self, session_uuid: SessionUuid, table: TableUuid | None) -> None:
        self.tell(f"{self._schedule.process}: removes {session_uuid} {table or ''}")
        self._ledger.removed(session_uuid, table)

    def location_touched(self, what: str, session_uuid: SessionUuid) -> None:
        self.tell(f"{self._schedule.process}: {what} {session_uuid}")
        self._acted(f"{what} the location {session_uuid}")
        self._ledger.location_touched(what, session_uuid)

    def fault(self, process: Process, fault: Fault, what: str) -> None:
        self._ledger.count(f"fault_{fault.name.lower()}")
        self.tell(f"{process}: {fault.name} at {what}")

    def count(self, event: str) -> None:
        self._ledger.count(event)
        self.tell(event)

    def tell(self, text: str) -> None:
        if self._trace is not None:
            self._trace.append(f"{self._schedule.now:9.3f} {text}")

    def _acted(self, what: str) -> None:
        process = self._schedule.process
        gateway = None if process is None else self._gateway_of(process)
        if gateway is not None and self._schedule.worker().was_fenced:
            self._ledger.acted_without_lease(gateway, what)


def _short(stored: Stored | None) -> str:
    if stored is None:
        return "none"
    spec = stored.spec
    tables = ",".join(f"{table.name}:{table.state}:{len(table.writes)}" for table in spec.tables)
    marked = " deleting" if stored.is_deleting else ""
    return f"{spec.session_uuid[:8]} {spec.phase}{marked} {sorted(spec.holders)} [{tables}]"
