"""Failed updates of session records that the replica still has to apply.

A session record lists the replicas that serve the session. When this replica leaves a session, the update of the
record can fail, or its result can remain unknown. The record may then still list this replica by mistake. This module
stores such updates, and :class:`gateway.sessions.registry.Sessions` applies them later.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.sessions.session import Session
from workspace.identifiers import RecordName


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A change of one session record that this replica still has to apply.

    Attributes:
        record: The name of the session record.
        session: The session that this replica no longer serves. None if the replica failed to open the session, because
            the record may list the replica even so.
        ends: Whether the session ended. If False, the replica only leaves the session.
    """

    record: RecordName
    session: Session | None = None
    ends: bool = False


class PendingUpdates:
    """The pending record updates of this replica, at most one for each record."""

    def __init__(self) -> None:
        self._updates: dict[RecordName, PendingUpdate] = {}

    @contextmanager
    def keep_on_failure(self, update: PendingUpdate) -> Iterator[None]:
        """Add the update to the pending updates if the block fails or is cancelled."""
        try:
            yield
        except BaseException:
            self._updates[update.record] = update
            raise

    def all(self) -> Sequence[PendingUpdate]:
        """Return the pending updates, oldest first."""
        return list(self._updates.values())

    def discard(self, update: PendingUpdate) -> None:
        """Remove an update that was applied, unless a later update has replaced it."""
        if self._updates.get(update.record) is update:
            del self._updates[update.record]
