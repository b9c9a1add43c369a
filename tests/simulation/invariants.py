"""The invariants of sessions, leases and the reaper, checked at each change.

The protocol's own view of the world may be wrong; that is what the simulation tests. The checker therefore sees the
true state of everything at one instant. It receives each record change, removal and log event before any process
continues. A state that does not change cannot violate an invariant, so nothing else needs a check.

A session is *live* if both are true:

- A gateway serves it and believes, by its own clock, that its lease is valid.
- Neither its client nor an operator asked for its end, and its backend did not lose it.

Invariants 1 to 3 are those of [architecture "Session records, leases and the reaper"]:

1. No live session loses its location:

   - A live session is not ended.
   - The location of a session whose record is ``Active`` is not removed, nor is a directory that the record names.
   - The files of a table that is ``Ready`` exist.
2. Each location is removed within a bounded time after its session ended. When that time has passed without faults,
   only locations and records of live sessions remain, the trash is empty, and no lease of a dead replica remains.
3. Nothing restores a removed location permanently: invariant 2 also holds for locations that were removed before.

The modules promise more:

4. The end of a session is reported once. A record that is ``Ending`` does not change until its deletion.
5. A record is deleted only after its location was moved to the trash.
6. A gateway that knows that it lost its lease creates no session and no location, and removes none.
7. A table whose creation a client saw exists until it is dropped or its session ends.
8. No code raises an unexpected exception.
9. The temporary view of a table reads the parts that the record names, once no statement runs.
10. A statement takes effect at most once, even if several gateways receive it. At most one directory that it wrote
    becomes a part of a table, unless it was undone.
11. A gateway that stops does not undo a write that can continue.
12. Nobody else removes a gateway with a valid lease from the record of a session that it serves.
13. A gateway adopts a session for which it must choose another gateway only after that was silent for the patience.
14. A session of lost replicas is adopted or ended within a bounded time after a gateway noticed the loss, if no fault
    affects that gateway, even if all other gateways are silent. The time begins again when a gateway starts.
15. A stopped lease is not renewed.
16. The tables of a principal never exceed its quota.
17. A reaper does not end a session whose gateway runs, if no fault happened except that nobody could write.
18. A reaper does not end a session within the grace period after the lease of one of its gateways changed. A change
    after the reaper last listed the leases does not count. The gateway then claims the session in its record, and the
    first change of the record decides.
19. A statement takes no effect if its client received an error, unless the error says that the outcome is unknown, or
    another gateway received the statement too.
20. A reaper decides to end a session because of silence only after it has listed the leases during the whole grace
    period, without an interruption, if no call is slow except that the storage hangs.
21. A part leaves a table only if a write replaces it.
22. A write that began before a table was replaced by a new one never becomes a part of the new table.

:mod:`tests.simulation.adoptions` checks the invariants 13 to 15.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import GatewayError
from gateway.tables.changes import is_lost
from reaper.holds import MASS_EXPIRY
from tests.simulation.api_server import ApiServer, StoredObject
from tests.simulation.gateways import GatewayProcess
from tests.simulation.parameters import LEASE_SECONDS, Parameters
from tests.simulation.schedule import MAX_DRIFT, Process, Schedule
from tests.simulation.situations import Situation
from tests.simulation.storage import Storage
from workspace.identifiers import ClientSessionId, Principal, RecordName, ReplicaId, SessionUuid, TableUuid, record_name
from workspace.record_changes import find_answer
from workspace.record_store import RecordError
from workspace.records import Phase, SessionRecord, TableState, TemporaryTable, WriteKind

CanContinue = Callable[[str, str, str], bool]
"""Returns whether a write in a client's session runs or has succeeded at the backend."""

ViewsOf = Callable[[str, str], Mapping[str, tuple[str, ...]] | None]
"""Returns the paths that each temporary view of a client's session reads; None if the backend has no such session."""

_NEVER = float("-inf")
_INTERRUPTION_SECONDS = 2.5 * LEASE_SECONDS
"""A longer time between two lists of the leases is an interruption. It covers a lease and a pause between passes."""
_EXPECTED_ERRORS = (GatewayError, OSError, RecordError)
"""Errors that the protocol handles: a service is unreachable, or another process changed a record first."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold.

    Attributes:
        invariant: Its number.
        text: What happened.
        seconds: The virtual time.
    """

    invariant: int
    text: str
    seconds: float

    def __str__(self) -> str:
        return f"invariant {self.invariant} at {self.seconds:.3f} s: {self.text}"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a client.

    Attributes:
        record: The name of the session's record.
        session_uuid: The session at the start of the statement; None if there was none yet.
        operation_id: The operation of the statement.
        table: The name of the table.
        started_seconds: When the statement started.
    """

    record: RecordName
    session_uuid: SessionUuid | None
    operation_id: str
    table: str
    started_seconds: float


@dataclass(slots=True)
class _SessionState:
    """What the checker knows about one session.

    Attributes:
        name: The name of its record.
        end_requested_by: Who asked for its end; empty if nobody did.
        moved_to_trash: Whether its location was moved to the trash, or was missing, since its end began.
        end_reports: How often its end was reported.
        lost_location: Whether one of its locations was removed.
    """

    name: RecordName
    end_requested_by: str = ""
    moved_to_trash: bool = False
    end_reports: int = 0
    lost_location: bool = False


class InvariantChecker:
    """Checks all invariants against the true state; see the module.

    Args:
        schedule: Gives the true time. The first violation ends it.
        gateways: Returns the running replicas.
        parameters: The parameters of the world.

    Attributes:
        on_mass_expiry: Called with the token when a reaper asks an operator to confirm.
        violation: The first violation; None if all invariants held.
        is_closed: Whether the checker ignores further events.
        counts: How often each kind of event happened.
    """

    def __init__(
        self,
        schedule: Schedule,
        gateways: Callable[[], Sequence[GatewayProcess]],
        parameters: Parameters,
    ) -> None:
        self._parameters = parameters
        self._lease_changes: dict[ReplicaId, float] = {}
        self._listed_changes: dict[Process | None, dict[ReplicaId, float]] = {}
        self._views: dict[Process | None, tuple[float, float]] = {}
        self._schedule = schedule
        self._gateways = gateways
        self._api: ApiServer
        self._storage: Storage
        self._views_of: ViewsOf = lambda principal, session: {}
        self._writes_continue: CanContinue = lambda principal, session, operation: False
        self.on_mass_expiry: Callable[[str], object] = lambda token: None
        self.violation: Violation | None = None
        self.is_closed = False
        self.counts: Counter[str] = Counter()
        self._sessions: dict[SessionUuid, _SessionState] = {}
        self._end_requests: dict[RecordName, str] = {}
        self._acknowledged: dict[tuple[SessionUuid, str], None] = {}
        self._operation_of: dict[TableUuid, str] = {}
        self._part_of: dict[str, TableUuid] = {}
        self._interrupted: set[str] = set()
        self._failed: set[tuple[Process | None, str]] = set()
        self._answered: set[str] = set()
        self._former_writes: set[TableUuid] = set()
        self._refused: dict[str, str] = {}
        self._running_drops: Counter[tuple[RecordName, str]] = Counter()
        self._last_drop_seconds: dict[tuple[RecordName, str], float] = {}

    def attach(self, api: ApiServer, storage: Storage, views_of: ViewsOf, writes_continue: CanContinue) -> None:
        """Set the state that the checker reads."""
        self._api, self._storage, self._views_of = api, storage, views_of
        self._writes_continue = writes_continue

    def report_violation(self, invariant: int, text: str) -> None:
        if self.violation is None and not self.is_closed:
            self.violation = Violation(invariant, text, self._schedule.now)
            self._schedule.is_over = True

    def count(self, event: str) -> None:
        self.counts[event] += 1

    def expect_end(self, principal: str, client_session_id: str, who: str) -> None:
        """Note that a client or an operator asked for the end of a session."""
        self.expect_end_of(record_name(Principal(principal), ClientSessionId(client_session_id)), who)

    def expect_end_of(self, name: RecordName, who: str) -> None:
        self._end_requests[name] = who
        found = self._api.records.get(name)
        if found is not None:
            self._sessions[found.spec.session_uuid].end_requested_by = who

    def on_record_change(self, before: StoredObject | None, after: StoredObject | None) -> None:
        """Check the invariants after a change of a record."""
        old = None if before is None else before.spec
        new = None if after is None else after.spec
        if old is None and new is not None:
            known = _SessionState(new.name, self._end_requests.get(new.name, ""))
            self._sessions[new.session_uuid] = known
        elif old is not None and new is None:
            self._check_deletion(old)
        elif old is not None and new is not None and old != new:
            self._check_change(old, new)
        if new is not None:
            self._check_tables(new)
            self._check_quota(new)
            self._check_refusals(new)

    def on_lease_change(self, replica: ReplicaId) -> None:
        """Note that a lease was renewed or stopped."""
        self._lease_changes[replica] = self._schedule.now

    def on_lease_list(self) -> None:
        """Note which changes of leases a process can know."""
        process, now = self._schedule.process, self._schedule.now
        self._listed_changes[process] = dict(self._lease_changes)
        since, last = self._views.get(process, (now, now))
        self._views[process] = since if now - last < _INTERRUPTION_SECONDS else now, now

    def on_ends_decided(self, sessions: Sequence[SessionUuid]) -> None:
        """Check what a reaper has seen when it decides to end sessions because of silence."""
        process, now = self._schedule.process, self._schedule.now
        since, last = self._views[process]
        seconds = last - since if now - last < _INTERRUPTION_SECONDS else 0.0
        is_interrupted = seconds < (1 - MAX_DRIFT) * self._parameters.grace_seconds
        if sessions and is_interrupted and self._parameters.situation is Situation.HANGS:
            text = f"{process} ends {sessions} although it has listed the leases for only {seconds:.1f} s"
            self.report_violation(20, text)

    def on_interrupt(self, operation_id: str) -> None:
        """Note that a client is about to interrupt a statement."""
        self._interrupted.add(operation_id)

    def on_undo(self, operation_id: str) -> None:
        """Note that a gateway is about to undo a statement."""
        process = self._schedule.process
        gateway = next((each for each in self._gateways() if each.process is process), None)
        if gateway is not None and not gateway.has_interrupted(operation_id):
            self._failed.add((process, operation_id))

    def on_statement_refused(self, statement: "Statement", condition: str) -> None:
        """Note that a client received an error, which says that its statement took no effect."""
        self._refused[statement.operation_id] = condition
        found = self._api.records.get(statement.record)
        if found is not None:
            self._check_refusals(found.spec)

    def _check_refusals(self, record: SessionRecord) -> None:
        for answer in record.answers:
            condition = self._refused.get(answer.operation_id)
            if condition and record.phase is Phase.ACTIVE and not is_lost(answer):
                text = f"[{answer.operation_id}] takes effect, although its client received {condition}"
                self.report_violation(19, text)

    def on_change_while_stopping(self, gateway: GatewayProcess, before: SessionRecord, after: SessionRecord) -> None:
        """Check a change of a record by a gateway that hands over its statements."""
        is_ending = after.phase is Phase.ENDING or self._sessions[before.session_uuid].end_requested_by
        if before.session_uuid != after.session_uuid or is_ending:
            return
        remaining = _unpublished(after).keys() | after.directories
        for directory, operation_id in _unpublished(before).items():
            is_undone = directory not in remaining and find_answer(after, operation_id) is None
            if (
                is_undone
                and (gateway.process, operation_id) not in self._failed
                and operation_id not in self._interrupted
                and gateway.has_interrupted(operation_id)
                and self._writes_continue(before.principal, before.client_session_id, directory)
            ):
                text = f"{gateway.process} undoes the write of {directory} in {before.session_uuid} although it stops"
                self.report_violation(11, text)

    def on_fenced_action(self, gateway: GatewayProcess, action: str) -> None:
        """Report a gateway that decided to act although it knew that its lease was lost."""
        self.report_violation(6, f"{gateway.process} wants to {action} although it knows that its lease was lost")

    def on_location_change(self, action: str, session_uuid: SessionUuid) -> None:
        """Note that a process is about to create a location or move it to the trash."""
        if action == "remove" and session_uuid in self._sessions:
            self._sessions[session_uuid].moved_to_trash = True

    def on_removal(self, session_uuid: SessionUuid, table: TableUuid | None) -> None:
        """Check the invariants before a location or a table moves to the trash."""
        known = self._sessions.get(session_uuid)
        if known is None:
            return
        record = self._find_record(known, session_uuid)
        if table is None:
            known.lost_location = True
        if record is None or record.phase is Phase.ENDING:
            return
        if table is None:
            self.report_violation(1, f"the location of the active session {session_uuid} is removed")
        elif table in record.directories:
            self.report_violation(
                1, f"the directory {table} of the active session {session_uuid} is removed although its record names it"
            )

    def on_log_event(self, event: Mapping[str, Any]) -> None:
        """Count a log event, and check what it reports."""
        if self.is_closed:
            return
        name = str(event.get("event"))
        self.counts[name] += 1
        if name == "session_location_deleted" and event["session"] in self._sessions:
            known = self._sessions[event["session"]]
            known.end_reports += 1
            if known.end_reports > 1:
                self.report_violation(4, f"the end of session {event['session']} is reported {known.end_reports} times")
        if name == "reaper_held_back" and event["kind"] == MASS_EXPIRY:
            self.on_mass_expiry(str(event["confirm_with"]))
        error = event.get("exc_info")
        if error:
            self.on_error(name, error if isinstance(error, BaseException) else sys.exc_info()[1])

    def on_error(self, what: str, error: BaseException | None) -> None:
        """Report an error that the code does not handle by design."""
        if not isinstance(error, _EXPECTED_ERRORS):
            self.report_violation(8, f"{what}: {error!r}")

    def find_session(self, principal: str, client_session_id: str) -> SessionUuid | None:
        """Return the session of a client's statements at this time."""
        found = self._api.records.get(record_name(Principal(principal), ClientSessionId(client_session_id)))
        return None if found is None else found.spec.session_uuid

    def on_table_created(self, statement: "Statement") -> None:
        """Note that a client saw the creation of a table succeed."""
        found = self._api.records.get(statement.record)
        if found is None or found.spec.phase is Phase.ENDING:
            return
        session_uuid = found.spec.session_uuid
        key = session_uuid, statement.table
        named = statement.record, statement.table
        if self._running_drops[named] or self._last_drop_seconds.get(named, float("-inf")) >= statement.started_seconds:
            return  # another thread of the client dropped it before or after
        if find_answer(found.spec, statement.operation_id) is not None:
            self._acknowledged[key] = None
        elif session_uuid == statement.session_uuid:
            text = f"a client saw the creation of table [{statement.table}] of {session_uuid}"
            self.report_violation(7, f"{text}, but its record does not name it")

    def on_drop_started(self, statement: "Statement") -> None:
        """Note that a client started to drop a table."""
        self._running_drops[statement.record, statement.table] += 1
        if statement.session_uuid is not None:
            self._acknowledged.pop((statement.session_uuid, statement.table), None)

    def on_drop_completed(self, statement: "Statement") -> None:
        """Note that a client saw the end of a drop."""
        named = statement.record, statement.table
        self._running_drops[named] -= 1
        self._last_drop_seconds[named] = self._schedule.now

    def find_leftovers(self) -> Sequence[tuple[int, str]]:
        """Return what must not exist after faults stopped, by number of the invariant."""
        gateways = [gateway for gateway in self._gateways() if gateway.is_serving]
        live = {
            session: gateway
            for gateway in gateways
            for session in gateway.session_uuids()
            if gateway.serves_with_lease(session)
        }
        replicas = {gateway.replica for gateway in gateways}
        records = {stored.spec.session_uuid: stored.spec for stored in self._api.records.values()}
        found: list[tuple[int, str]] = []
        for session_uuid, gateway in live.items():
            record = records.get(session_uuid)
            if record is None or record.phase is Phase.ENDING:
                found.append((1, f"{gateway.process} serves the session {session_uuid}, which has ended"))
        for session_uuid, record in records.items():
            if session_uuid in live:
                found += self._find_record_leftovers(record, replicas)
            else:
                text = f"the {record.phase} record of {session_uuid}, served by {sorted(record.holders)},"
                found.append((2, f"{text} exists without a live session"))
        for session_uuid in self._storage.locations:
            if session_uuid not in live:
                known = self._sessions.get(session_uuid)
                again = known is not None and known.lost_location
                found.append((3 if again else 2, f"the location {session_uuid} exists without a live session"))
        found += [(2, f"[{entry}] is still in the trash") for entry in self._storage.trash]
        found += [
            (2, f"the lease of {replica}, which is gone, still exists")
            for replica in self._api.lease_marks.keys() - replicas
        ]
        return found

    def _find_record_leftovers(self, record: SessionRecord, replicas: set[ReplicaId]) -> Iterator[tuple[int, str]]:
        session_uuid = record.session_uuid
        for holder in sorted(record.holders - replicas):
            yield 2, f"the record of {session_uuid} still names {holder}, which is gone"
        for writer in sorted(record.writers - replicas):
            yield 2, f"the record of {session_uuid} still names a write of {writer}, which is gone"
        location = self._storage.locations.get(session_uuid)
        for directory in (location.tables if location is not None else {}).keys() - record.directories:
            yield 2, f"the directory {directory} of {session_uuid} exists, but its record does not name it"
        views = self._views_of(record.principal, record.client_session_id)
        for table in record.tables:
            if views is not None and table.state is TableState.READY and not table.writes:
                parts = tuple(str(self._storage.root / session_uuid / part) for part in table.parts)
                if views.get(table.name) != parts:
                    yield 9, f"the view of [{table.name}] of {session_uuid} reads {views.get(table.name)}, not {parts}"
        named = {table.name for table in record.tables if table.state is not TableState.CREATING}
        for session, name in self._acknowledged:
            if session == session_uuid and name not in named:
                yield 7, f"table [{name}] of {session_uuid} is gone although a client saw its creation"

    def _check_deletion(self, old: SessionRecord) -> None:
        known = self._sessions[old.session_uuid]
        if old.phase is not Phase.ENDING:
            self.report_violation(4, f"the record of {old.session_uuid} is deleted while it is {old.phase}")
        elif not known.moved_to_trash:
            self.report_violation(
                5, f"the record of {old.session_uuid} is deleted before its location was moved to the trash"
            )

    def _check_change(self, old: SessionRecord, new: SessionRecord) -> None:
        if old.phase is Phase.ENDING:
            self.report_violation(4, f"the record of {old.session_uuid} changes although it is ending")
        elif old.session_uuid != new.session_uuid:
            self.report_violation(4, f"the record of {old.session_uuid} becomes that of {new.session_uuid}")
        elif new.phase is Phase.ENDING:
            self._sessions[new.session_uuid].moved_to_trash = False
            self._check_live(new)
        else:
            self._check_removed_holders(old, new)
            self._check_removed_parts(old, new)

    def _check_removed_parts(self, old: SessionRecord, new: SessionRecord) -> None:
        now = {table.uuid: table for table in new.tables}
        for table in old.tables:
            current = now.get(table.uuid)
            if current is None:
                continue
            self._check_former_writes(old, table, current)
            begun = {write.directory for write in table.writes if not write.is_published}
            published = [write for write in current.writes if write.is_published and write.directory in begun]
            allowed = {write.directory for write in table.writes}.union(*(write.replaced for write in published))
            lost = set(table.parts) - set(current.parts) - allowed
            if lost:
                text = f"table [{table.name}] of {old.session_uuid} loses the parts {sorted(lost)}"
                self.report_violation(21, text)

    def _check_former_writes(self, record: SessionRecord, old: TemporaryTable, new: TemporaryTable) -> None:
        pending = {write.directory for write in old.writes if not write.is_published}
        published = {write.directory for write in new.writes if write.is_published and write.directory in pending}
        if any(write.directory in published for write in new.writes if write.kind is WriteKind.REPLACEMENT):
            other = {write.directory for write in old.writes if write.kind is not WriteKind.REPLACEMENT}
            self._former_writes |= pending & other
        for part in sorted(self._former_writes & set(new.parts)):
            text = f"table [{new.name}] of {record.session_uuid} has the part {part} of the table that it replaced"
            self.report_violation(22, text)

    def _check_removed_holders(self, old: SessionRecord, new: SessionRecord) -> None:
        removed = old.holders - new.holders
        for gateway in self._gateways() if removed else ():
            is_own = gateway.process is self._schedule.process
            if not is_own and gateway.serves_with_lease(old.session_uuid) and gateway.replica in removed:
                text = f"{self._schedule.process} removes {gateway.process} from {old.session_uuid}, which it serves"
                self.report_violation(12, text)

    def _check_live(self, record: SessionRecord) -> None:
        is_at_backend = self._views_of(record.principal, record.client_session_id) is not None
        if self._sessions[record.session_uuid].end_requested_by or not is_at_backend:
            return
        process = self._schedule.process
        is_reaper = process is not None and process.name.startswith("reaper")
        nobody_writes = self._parameters.situation is Situation.READ_ONLY
        for gateway in self._gateways():
            if gateway.serves_with_lease(record.session_uuid):
                self.report_violation(
                    1, f"the session {record.session_uuid} is ended while {gateway.process} serves it"
                )
            elif nobody_writes and is_reaper and gateway.is_serving and gateway.replica in record.holders:
                self.report_violation(
                    17, f"{process} ends the session {record.session_uuid} although {gateway.process} runs"
                )
        known = self._listed_changes.get(process, {})
        seconds = self._schedule.now - max((known.get(each, _NEVER) for each in record.holders), default=_NEVER)
        if is_reaper and seconds < (1 - MAX_DRIFT) * self._parameters.grace_seconds:
            text = (
                f"{process} ends the session {record.session_uuid} {seconds:.1f} s after the lease of a holder changed"
            )
            self.report_violation(18, text)

    def _check_tables(self, record: SessionRecord) -> None:
        if record.phase is Phase.ENDING:
            return
        self._operation_of.update(_unpublished(record))
        self._answered.update(answer.operation_id for answer in record.answers)
        for table in record.tables:
            if table.state is TableState.READY:
                self._check_parts(record, table)
                for part in table.parts:
                    found = self._storage.table(record.session_uuid, part)
                    if found is None or not found.files:
                        self.report_violation(
                            1, f"table [{table.name}] of {record.session_uuid} is ready, but its part {part} is missing"
                        )

    def _check_quota(self, record: SessionRecord) -> None:
        if self._parameters.principal_tables is None:
            return
        records = (stored.spec for stored in self._api.records.values() if stored.spec.principal == record.principal)
        number = sum(table.state is TableState.READY for each in records for table in each.tables)
        if number > self._parameters.principal_tables:
            text = f"{record.principal} has {number} tables, but its quota is {self._parameters.principal_tables}"
            self.report_violation(16, text)

    def _check_parts(self, record: SessionRecord, table: TemporaryTable) -> None:
        """Check that the statement that wrote a part had no effect before, unless that was undone."""
        for part in table.parts:
            operation_id = self._operation_of.get(part)
            if operation_id is None:
                continue
            other = self._part_of.get(operation_id, part)
            self._part_of[operation_id] = part
            if other != part and (operation_id in self._answered or other in record.directories):
                text = f"the statement {operation_id} wrote two parts of [{table.name}] of {record.session_uuid}"
                self.report_violation(10, text)

    def _find_record(self, known: _SessionState, session_uuid: SessionUuid) -> SessionRecord | None:
        found = self._api.records.get(known.name)
        return found.spec if found is not None and found.spec.session_uuid == session_uuid else None


def _unpublished(record: SessionRecord) -> dict[TableUuid, str]:
    """Return the operation ids of the writes that are not visible yet, by their directories."""
    return {
        write.directory: write.operation_id
        for table in record.tables
        for write in table.writes
        if not write.is_published
    }
