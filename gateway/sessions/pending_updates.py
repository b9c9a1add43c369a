"""Updates of session records that failed, kept until a retry succeeds.

A record names the replicas that serve its session. If this replica cannot write that it left a session, or does not
learn whether the write took effect, the record may name it wrongly. :class:`gateway.sessions.registry.Sessions`
applies the updates that this module keeps.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.sessions.session import Session
from workspace.identifiers import RecordName


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A change of one session record that this replica still has to write.

    Attributes:
        record: The name of the record.
        session: The session that this replica no longer serves. None if opening failed: the record may name this
            replica all the same.
        ends: Whether the session ended. If not, the replica only leaves it.
    """

    record: RecordName
    session: Session | None = None
    ends: bool = False


class PendingUpdates:
    """The pending updates of this replica, at most one for each record."""

    def __init__(self) -> None:
        self._updates: dict[RecordName, PendingUpdate] = {}

    @contextmanager
    def keep_on_failure(self, update: PendingUpdate) -> Iterator[None]:
        """Keep the update if the block that writes it fails or is cancelled."""
        try:
            yield
        except BaseException:
            self._updates[update.record] = update
            raise

    def all(self) -> Sequence[PendingUpdate]:
        """Return the updates, oldest first."""
        return list(self._updates.values())

    def discard(self, update: PendingUpdate) -> None:
        """Remove an update that was applied, unless a later one replaced it."""
        if self._updates.get(update.record) is update:
            del self._updates[update.record]
