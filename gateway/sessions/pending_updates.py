"""Failed updates of session records that the replica still has to apply.

A session record lists the replicas that serve the session. When this replica leaves a session, the update of the
record can fail, or its result can remain unknown. The record may then still list this replica by mistake. This module
stores such updates, and :class:`gateway.sessions.settlement.Settlement` applies them later.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from gateway.errors import GatewayError
from gateway.sessions.session import Session
from workspace.identifiers import RecordName, SessionUuid
from workspace.record_store import RecordError

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A change of one session record that this replica still has to apply.

    Attributes:
        record: The name of the session record.
        session: The session that this replica has to end. None if the replica failed to open the session, because the
            record may list the replica even so. The replica then only leaves the session.
        is_idle: Whether the session has to end because it was idle.
    """

    record: RecordName
    session: Session | None = None
    is_idle: bool = False


class PendingUpdates:
    """The pending record updates of this replica.

    A record can have the ends of its former sessions and one update without a session. A failed attempt to open a
    session does not replace the end of the session.
    """

    def __init__(self) -> None:
        self._updates: dict[tuple[RecordName, SessionUuid | None], PendingUpdate] = {}

    @contextmanager
    def keep_on_failure(self, update: PendingUpdate) -> Iterator[None]:
        """Add the update to the pending updates if the block fails or is cancelled."""
        try:
            yield
        except BaseException:
            self._updates[_key(update)] = update
            raise

    def all(self) -> Sequence[PendingUpdate]:
        """Return the pending updates that can be applied, oldest first.

        This replica leaves a record only after it has ended the sessions of the record. Otherwise, another replica
        could adopt a session that has to end, because the record has no holders.
        """
        ending = {update.record for update in self._updates.values() if update.session is not None}
        return [
            update for update in self._updates.values() if update.session is not None or update.record not in ending
        ]

    def discard(self, update: PendingUpdate) -> None:
        """Remove an update that was applied, unless a later update has replaced it."""
        if self._updates.get(_key(update)) is update:
            del self._updates[_key(update)]


def _key(update: PendingUpdate) -> tuple[RecordName, SessionUuid | None]:
    return update.record, None if update.session is None else update.session.uuid


@contextmanager
def log_failure() -> Iterator[None]:
    """Log an error that the block raises, and suppress it. The caller retries later."""
    try:
        yield
    except (GatewayError, RecordError) as error:
        log.warning("session_not_settled", reason=str(error))
