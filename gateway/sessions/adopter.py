"""Adopts the sessions of replicas that were lost or have stopped.

:mod:`gateway.sessions.adoption` chooses which replica adopts a session. This module lists the leases and the sessions,
and changes the session records.

Guarantees:

1. While all replicas live, the adopter only lists the leases. The cost does not depend on the number of sessions.
2. A replica that does not take part in an adoption does not read the sessions. Adopting a session costs one change of
   its record.
3. At most ``_WORKERS`` sessions are adopted at the same time. The number of tasks depends on the number of lost
   replicas, not on the number of sessions.
4. A failed step is retried until the session is adopted or ended, or the lost replica returns. This applies to
   unexpected errors too.
5. A replica whose lease has lapsed does not adopt sessions.
6. A replica counts as lost only if its lease shows this after its sessions were listed. If it returns later, it changes
   the record of each session before it acts, so adopting the listed version conflicts.

Not guaranteed: that a session is adopted before the reaper ends it. The reaper waits while sessions of the lost replica
are being adopted.

Source: [architecture "Session records, leases and the reaper"].
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import structlog

from gateway.blocking_work.futures import for_each
from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.sessions.adoption import Adoption, find_abandoned, is_adoptable, is_continuing
from gateway.sessions.registry import Sessions
from gateway.sessions.session import Session
from workspace.identifiers import RecordName, ReplicaId
from workspace.record_store import RecordError, StoredRecord
from workspace.records import NO_REPLICA

_WORKERS = 16
_MOST_FAILURES = 16  # in succession
_RETRY_FACTOR = 1.5
_REST_FACTOR = 2.0  # of the time that a list and its adoptions took
_LONGEST_RETRY_SECONDS = 60.0
_CLOCK_SLACK_SECONDS = 0.05  # timers of the event loop may fire early
_LOST = "its replica was lost or has stopped"

Complete = Callable[[Session, StoredRecord], object]
"""A function that completes the abandoned changes of a session in the background."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Listing:
    """The sessions of a lost replica.

    Attributes:
        chosen: The sessions that this replica adopts.
        waiting: The number of sessions that nobody has adopted.
        named: The number of active sessions whose records name the lost replica. They include sessions that another
            replica serves. If that replica is lost too, these sessions wait for an adoption.
        shared: The sessions that this replica already serves, with changes of other replicas.
    """

    chosen: Sequence[StoredRecord]
    waiting: int
    named: int
    shared: Sequence[StoredRecord]


class Adopter:
    """Adopts sessions that no living replica serves.

    Args:
        sessions: The sessions that this replica serves.
        storage: The storage of session records.
        complete: A function that completes the abandoned changes of a session.
        patience_seconds: The time after which another replica adopts the sessions of a chosen replica that is silent.
            It must be longer than the time between two lists of leases.

    Attributes:
        left: The sessions whose records have no holders, by record name.
        tracked: The sessions of this replica with pending changes of other replicas, by record name.
    """

    def __init__(self, sessions: Sessions, storage: Storage, complete: Complete, *, patience_seconds: float) -> None:
        self._sessions = sessions
        self._peers = sessions.peers
        self._storage = storage
        self._complete = complete
        self._patience_seconds = patience_seconds
        self._slots = asyncio.Semaphore(_WORKERS)
        self._running: set[ReplicaId] = set()
        self._done: set[ReplicaId] = set()
        self.left: dict[RecordName, StoredRecord] = {}
        self.tracked: dict[RecordName, StoredRecord] = {}
        self._left_changed = asyncio.Event()

    async def run(self) -> None:
        """Adopt sessions until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._adopt_left())
            while True:
                try:
                    await self._peers.observe()
                    self._follow_losses(group)
                except GatewayError as error:
                    log.warning("leases_not_listed", reason=str(error))
                except Exception as error:  # a top loop, see guarantee 4
                    log.warning("adoption_postponed", reason=str(error), exc_info=True)
                await asyncio.sleep(self._peers.pause_seconds())

    def _follow_losses(self, group: asyncio.TaskGroup) -> None:
        """Complete the changes of the lost replicas in sessions of this one, and begin to adopt their sessions."""
        for stored in list(self.tracked.values()):
            self._complete_if_abandoned(stored)
        self._done &= self._peers.lost
        for replica in sorted(self._peers.lost - self._running - self._done):
            group.create_task(self._adopt_sessions_of(replica))
            self._running.add(replica)

    def offer(self, stored: StoredRecord) -> None:
        """Add a session whose record has no holders."""
        self.left[stored.record.name] = stored
        self._left_changed.set()

    def withdraw(self, name: RecordName) -> None:
        """Remove a session that has ended or whose record has holders again."""
        self.left.pop(name, None)

    def replace_left(self, left: Mapping[RecordName, StoredRecord]) -> None:
        """Replace the sessions whose records have no holders."""
        self.left = dict(left)
        self._left_changed.set()

    def track(self, stored: StoredRecord) -> None:
        """Complete the changes of other replicas in a session of this replica, as soon as these replicas are lost.

        The reaper removes a lost replica from the record, possibly before this replica knows of the loss. This replica
        then no longer finds the session by the lost replica.
        """
        self.tracked[stored.record.name] = stored
        self._peers.notice(_foreign_replicas(stored, self._sessions.replica))
        self._complete_if_abandoned(stored)

    def untrack(self, name: RecordName) -> None:
        """Remove a session without changes of other replicas."""
        self.tracked.pop(name, None)

    def replace_tracked(self, tracked: Sequence[StoredRecord]) -> None:
        """Replace the sessions with changes of other replicas."""
        self.tracked.clear()
        for stored in tracked:
            self.track(stored)

    def _complete_if_abandoned(self, stored: StoredRecord) -> None:
        if not find_abandoned(stored, self._peers.lost | {NO_REPLICA}):
            return
        session = self._sessions.find_by_record(stored.record.name)
        if session is not None and session.uuid == stored.record.session_uuid:
            self._complete(session, stored)

    def has_foreign_changes(self, stored: StoredRecord) -> bool:
        """Return whether this replica holds a session with pending changes of other replicas.

        This method can be called from any thread.
        """
        replica = self._sessions.replica
        return replica in stored.record.holders and bool(_foreign_replicas(stored, replica))

    async def _adopt_sessions_of(self, lost: ReplicaId) -> None:
        """Adopt this replica's share of the sessions of a lost replica, until nobody needs to adopt any."""
        try:
            adoption = Adoption(self._sessions.replica, lost, patience_seconds=self._patience_seconds)
            await asyncio.sleep(adoption.start_delay_seconds(self._peers.living))
            pause_seconds, waiting_before = self._patience_seconds, 0
            while lost in self._peers.lost:
                begun_seconds, waiting, rest_seconds = time.monotonic(), waiting_before, 0.0
                chosen_before = set(adoption.chosen_replicas)
                try:
                    listing = await self._storage.read(self._list, lost, adoption)
                    await self._confirm_losses()
                    for stored in listing.shared:
                        self._complete_if_abandoned(stored)
                    if not listing.named:
                        self._done.add(lost)
                        self._peers.forget(lost)
                        return
                    waiting = listing.waiting
                    await self._adopt_all(listing.chosen, lost)
                    # Listing thousands of sessions is expensive, and the other adopters may be as busy as this one.
                    rest_seconds = _REST_FACTOR * (time.monotonic() - begun_seconds)
                except Exception as error:  # a top loop, see guarantee 4
                    is_expected = isinstance(error, GatewayError)
                    log.warning("adoption_postponed", replica=lost, reason=str(error), exc_info=not is_expected)
                # Replicas that started after the loss do not know of it. Each of them may be chosen, and stay silent.
                has_progress = waiting != waiting_before or adoption.chosen_replicas != chosen_before
                waiting_before = waiting
                retry_seconds = min(pause_seconds * _RETRY_FACTOR, _LONGEST_RETRY_SECONDS)
                pause_seconds = self._patience_seconds if has_progress or not waiting else retry_seconds
                next_seconds = begun_seconds + max(pause_seconds, rest_seconds) + _CLOCK_SLACK_SECONDS
                await self._pause(lost, next_seconds)
        finally:
            self._running.discard(lost)

    async def _pause(self, lost: ReplicaId, until_seconds: float) -> None:
        """Wait, but no longer than until a lost replica returns. Its next loss then begins without a pause."""
        while (seconds := until_seconds - time.monotonic()) > 0:
            await asyncio.sleep(min(seconds, self._peers.pause_seconds()))
            if lost not in self._peers.lost:
                return

    async def _confirm_losses(self) -> None:
        """List the leases again after the sessions were listed, see guarantee 6."""
        await self._peers.observe()

    async def _adopt_left(self) -> None:
        """Adopt this replica's share of the sessions without holders."""
        while True:
            await self._left_changed.wait()
            adoption = Adoption(self._sessions.replica, "", patience_seconds=self._patience_seconds, most_adopters=None)
            while self.left:
                self._left_changed.clear()
                try:
                    left, living, now_seconds = dict(self.left), self._peers.living, time.monotonic()
                    chosen = await asyncio.to_thread(adoption.choose, left.keys(), living, now_seconds)
                    await self._adopt_all([left[name] for name in chosen], None)
                except Exception as error:  # a top loop, see guarantee 4
                    log.warning("adoption_postponed", reason=str(error), exc_info=True)
                try:
                    async with asyncio.timeout(self._patience_seconds + _CLOCK_SLACK_SECONDS):
                        await self._left_changed.wait()
                except TimeoutError:
                    continue
            self._left_changed.clear()

    async def _adopt_all(self, chosen: Sequence[StoredRecord], lost: ReplicaId | None) -> None:
        """Adopt sessions. Stop after several errors in succession, because the other sessions would probably fail too.

        A session whose adoption fails is tried again after the others.

        Args:
            chosen: The sessions.
            lost: The replica that was lost. None for sessions without holders.
        """
        failures, waiting = 0, deque(chosen)

        def remaining() -> Iterator[StoredRecord]:
            while waiting:
                stored = waiting.popleft()
                name = stored.record.name
                if failures >= _MOST_FAILURES or (lost is not None and lost not in self._peers.lost):
                    return
                if self.left.get(name) is stored if lost is None else is_adoptable(stored, self._peers.lost):
                    yield stored

        async def adopt(stored: StoredRecord) -> None:
            nonlocal failures
            name = stored.record.name
            try:
                async with self._slots:
                    if lost is None:
                        session = await self._sessions.joins.adopt(stored)
                    else:
                        session = await self._sessions.joins.adopt(stored, self._peers.lost, reason=_LOST)
            except (GatewayError, RecordError) as error:
                log.warning("session_not_adopted", location=stored.record.session_uuid, reason=str(error))
                if isinstance(error, GatewayError):
                    failures += 1
                    waiting.append(stored)
                return
            failures = 0
            if session is not None:
                self._complete(session, stored)
                if self.left.get(name) is stored:
                    del self.left[name]

        await for_each(remaining(), adopt, workers=_WORKERS)

    def _list(self, lost: ReplicaId, adoption: Adoption) -> _Listing:
        now_seconds = time.monotonic()
        found = self._storage.records.list_held(lost)
        replicas = self._peers.lost
        waiting = {stored.record.name: stored for stored in found if is_adoptable(stored, replicas)}
        chosen = adoption.choose(waiting.keys(), self._peers.living, now_seconds)
        shared = [stored for stored in found if self.has_foreign_changes(stored)]
        named = sum(is_continuing(stored) for stored in found)
        return _Listing([waiting[name] for name in chosen], len(waiting), named, shared)


def _foreign_replicas(stored: StoredRecord, replica: ReplicaId) -> Set[ReplicaId]:
    """Return the other replicas that execute pending changes of temporary tables."""
    changes = (change for table in stored.record.tables for change in table.pending_changes)
    return {change.replica for change in changes} - {replica}
