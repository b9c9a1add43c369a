"""A model of the Kubernetes API server, as far as session records and leases need one.

Why it exists: what the protocol relies on is what happens here, so it is said in full: each request is one step, an
object has an identity (``uid``), a version of everything (``resource_version``) and one of its ``spec``
(``generation``), a change names the version that it is based on, and an object with a finalizer is only marked by a
deletion. Each change writes a random revision, so it is one also if the record in it is the same.

Source: Kubernetes API conventions ("Concurrency Control and Consistency", "Metadata"); apiserver's ``markAsDeleting``,
which counts a deletion as a change of ``generation``.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace

from workspace.identifiers import RecordName, ReplicaId
from workspace.record_store import RecordsUnavailableError
from workspace.records import SessionRecord


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object with a session record for its ``spec``.

    Attributes:
        name: Unique at a time.
        uid: Unique for ever.
        resource_version: Differs after each change of anything.
        generation: Differs after each change of the ``spec``, and after the first deletion.
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
    """409 of a deletion, 422 of a patch: the object is not at the version that the request names."""


class AlreadyExistsError(Exception):
    """409 of a creation."""


class NotFoundError(Exception):
    """404."""


Watcher = Callable[[StoredObject, bool], object]
"""Told of an object as it is now, and whether it is gone."""

OnChange = Callable[[StoredObject | None, StoredObject | None], object]
"""Told of an object before and after a change."""


class ApiServer:
    """The state of the cluster; each method is one request, and happens at once.

    Args:
        on_change: Told of each change of a record before anyone else acts.
        name: Under which callers are cut off from it.
    """

    def __init__(self, on_change: OnChange = lambda before, after: None, name: str = "api server") -> None:
        self.name = name
        self.records: MutableMapping[RecordName, StoredObject] = {}
        self.lease_marks: MutableMapping[ReplicaId, int] = {}
        self.watchers: list[Watcher] = []
        self.leader: tuple[str, int] = ("", 0)
        self._on_change = on_change
        self._last_revision = 0

    def create_unavailable_error(self, reason: str) -> Exception:
        return RecordsUnavailableError(None, f"The records on the model's {self.name} cannot be used now: {reason}.")

    def create(self, name: RecordName, spec: SessionRecord) -> StoredObject:
        """Raises: AlreadyExistsError."""
        if name in self.records:
            raise AlreadyExistsError
        return self._put(None, StoredObject(name, self._next_revision(), self._next_revision(), 1, spec))

    def get(self, name: RecordName) -> StoredObject:
        """Raises: NotFoundError."""
        try:
            return self.records[name]
        except KeyError:
            raise NotFoundError from None

    def patch(self, name: RecordName, uid: int, generation: int, spec: SessionRecord) -> StoredObject:
        """Changes the spec of an object that is at a generation. Raises: NotFoundError, ConflictError."""
        found = self._get_generation(name, uid, generation)
        changed = replace(found, spec=spec, generation=generation + 1, resource_version=self._next_revision())
        return self._put(found, changed)

    def delete(self, name: RecordName, resource_version: int | None = None) -> StoredObject:
        """Marks an object as deleted, until its finalizer is taken off. Raises: NotFoundError, ConflictError."""
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
        """Takes the finalizer off an object that is being deleted, with which it is gone.

        Raises: NotFoundError, ConflictError.
        """
        self._remove(self._get_generation(name, uid, generation))

    def renew(self, replica: ReplicaId) -> None:
        self.lease_marks[replica] = self._next_revision()

    def leases(self) -> Mapping[ReplicaId, int]:
        return dict(self.lease_marks)

    def delete_lease(self, replica: ReplicaId) -> None:
        self.lease_marks.pop(replica, None)

    def acquire_leadership(self, candidate: str, mark: int) -> int:
        """Takes or renews the leader's lease that has this mark. Raises: ConflictError."""
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
