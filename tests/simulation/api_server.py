"""A model of the Kubernetes API server for session records and leases.

The protocol relies on these rules:

- Each request is one step.
- An object has an identity (``uid``), a version of all its fields (``resource_version``), and a version of its
  ``spec`` (``generation``).
- A change names the version on which it is based.
- The deletion of an object with a finalizer only marks the object.
- A deletion increases ``generation``.
- A change counts even if the record stays the same, because it writes a random revision.

See [kubernetes-api].
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace

from workspace.identifiers import RecordName, ReplicaId
from workspace.record_store import RecordsUnavailableError
from workspace.records import SessionRecord


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object whose ``spec`` is a session record.

    Attributes:
        name: Unique among the objects that exist.
        uid: Never used again.
        resource_version: Changes with each change.
        generation: Changes with each change of ``spec``, and with the first deletion.
        spec: The record.
        is_deleting: Whether it has a ``deletionTimestamp``.
    """

    name: RecordName
    uid: int
    resource_version: int
    generation: int
    spec: SessionRecord
    is_deleting: bool = False


class ConflictError(Exception):
    """Status 409 or 422: the object does not have the version that the request names."""


class AlreadyExistsError(Exception):
    """Status 409 of a creation."""


class NotFoundError(Exception):
    """Status 404."""


Watcher = Callable[[StoredObject, bool], object]
"""Receives an object after a change, and whether it was deleted."""

OnChange = Callable[[StoredObject | None, StoredObject | None], object]
"""Receives an object before and after a change."""


class ApiServer:
    """The state of the cluster. Each method is one request, and takes effect at once.

    Args:
        on_change: Called at each change of a record, before any process continues.
        on_lease_change: Called with the replica of each lease that was renewed or stopped.
        on_lease_list: Called when a process lists the leases.
        name: The name under which processes lose the connection to it.
    """

    def __init__(
        self,
        on_change: OnChange = lambda before, after: None,
        on_lease_change: Callable[[ReplicaId], None] = lambda replica: None,
        on_lease_list: Callable[[], None] = lambda: None,
        name: str = "api server",
    ) -> None:
        self.name = name
        self.records: MutableMapping[RecordName, StoredObject] = {}
        self.lease_marks: MutableMapping[ReplicaId, int | None] = {}
        self.watchers: list[Watcher] = []
        self.leader: tuple[str, int] = ("", 0)
        self._on_change = on_change
        self._on_lease_change = on_lease_change
        self._on_lease_list = on_lease_list
        self._last_revision = 0

    def create_unavailable_error(self, reason: str) -> Exception:
        return RecordsUnavailableError(None, f"The simulated {self.name} cannot be used now: {reason}.")

    def create(self, name: RecordName, spec: SessionRecord) -> StoredObject:
        """Create an object.

        Raises:
            AlreadyExistsError: An object of this name exists.
        """
        if name in self.records:
            raise AlreadyExistsError
        return self._put(None, StoredObject(name, self._next_revision(), self._next_revision(), 1, spec))

    def get(self, name: RecordName) -> StoredObject:
        """Return an object.

        Raises:
            NotFoundError: The object does not exist.
        """
        try:
            return self.records[name]
        except KeyError:
            raise NotFoundError from None

    def patch(self, name: RecordName, uid: int, generation: int, spec: SessionRecord) -> StoredObject:
        """Change the spec of an object that has a generation.

        Raises:
            NotFoundError: The object does not exist.
            ConflictError: The object has another generation.
        """
        found = self._get_generation(name, uid, generation)
        changed = replace(found, spec=spec, generation=generation + 1, resource_version=self._next_revision())
        return self._put(found, changed)

    def delete(self, name: RecordName, resource_version: int | None = None) -> StoredObject:
        """Mark an object as deleted. It exists until its finalizer is removed.

        Raises:
            NotFoundError: The object does not exist.
            ConflictError: The object has another version.
        """
        found = self.get(name)
        if resource_version is not None and found.resource_version != resource_version:
            raise ConflictError
        if found.is_deleting:
            return found
        marked = replace(
            found, is_deleting=True, generation=found.generation + 1, resource_version=self._next_revision()
        )
        return self._put(found, marked)

    def remove_finalizer(self, name: RecordName, uid: int, generation: int) -> None:
        """Remove the finalizer of an object that is being deleted, and so the object.

        Raises:
            NotFoundError: The object does not exist.
            ConflictError: The object has another generation.
        """
        self._remove(self._get_generation(name, uid, generation))

    def renew(self, replica: ReplicaId) -> bool:
        """Renew a lease, unless it is stopped. Return whether it was renewed."""
        is_stopped = self.lease_marks.get(replica, 0) is None
        if not is_stopped:
            self.lease_marks[replica] = self._next_revision()
            self._on_lease_change(replica)
        return not is_stopped

    def stop_lease(self, replica: ReplicaId) -> None:
        if self.lease_marks.get(replica, 0) is not None:
            self.lease_marks[replica] = None
            self._on_lease_change(replica)

    def leases(self) -> Mapping[ReplicaId, int | None]:
        """Return the renewal mark of each lease; None if the lease is stopped."""
        self._on_lease_list()
        return dict(self.lease_marks)

    def delete_lease(self, replica: ReplicaId) -> None:
        self.lease_marks.pop(replica, None)

    def acquire_leadership(self, candidate: str, mark: int) -> int:
        """Take or renew the leader's lease.

        Raises:
            ConflictError: Another candidate has changed the lease.
        """
        if self.leader[1] != mark:
            raise ConflictError
        self.leader = candidate, self._next_revision()
        return self.leader[1]

    def _get_generation(self, name: RecordName, uid: int, generation: int) -> StoredObject:
        found = self.get(name)
        if (found.uid, found.generation) != (uid, generation):
            raise ConflictError
        return found

    def _put(self, before: StoredObject | None, after: StoredObject) -> StoredObject:
        self.records[after.name] = after
        self._notify(before, after)
        return after

    def _remove(self, found: StoredObject) -> None:
        del self.records[found.name]
        self._next_revision()
        self._notify(found, None)

    def _notify(self, before: StoredObject | None, after: StoredObject | None) -> None:
        self._on_change(before, after)
        for watcher in list(self.watchers):
            watcher(after or before, after is None)

    def _next_revision(self) -> int:
        self._last_revision += 1
        return self._last_revision
