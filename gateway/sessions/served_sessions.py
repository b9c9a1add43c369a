"""The sessions that this replica serves at this moment."""

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from gateway.admission.session_quota import SessionQuota
from gateway.messages.requests import SessionKey
from gateway.sessions.session import Session
from workspace.identifiers import RecordName


class ServedSessions:
    """The sessions that this replica serves, by key and by the name of their record.

    Args:
        quota: Counts the sessions.

    Attributes:
        quota: Counts the sessions.
        is_leaving: Whether the replica stops, and leaves its sessions to the other replicas.
    """

    def __init__(self, quota: SessionQuota) -> None:
        self.quota = quota
        self.is_leaving = False
        self._by_key: dict[SessionKey, Session] = {}
        self._by_record: dict[RecordName, Session] = {}
        self._locks: WeakValueDictionary[RecordName, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: SessionKey) -> Session | None:
        """Return a session by its key. None if this replica does not serve the session."""
        return self._by_key.get(key)

    def find_by_record(self, name: RecordName) -> Session | None:
        """Return a session by its record name. None if this replica does not serve it."""
        return self._by_record.get(name)

    def all(self) -> Sequence[Session]:
        """Return all sessions."""
        return list(self._by_key.values())

    def add(self, session: Session) -> Session:
        """Serve a session, and return it."""
        self._by_key[session.key] = self._by_record[session.record_name] = session
        self.quota.add(session.key.principal)
        return session

    def remove(self, session: Session) -> None:
        """Stop serving a session. Do nothing if this replica does not serve it."""
        if self._by_key.get(session.key) is session:
            del self._by_key[session.key], self._by_record[session.record_name]
            self.quota.remove(session.key.principal)

    def lock(self, name: RecordName) -> asyncio.Lock:
        """Return the lock to hold while this replica opens, joins or leaves a session."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
