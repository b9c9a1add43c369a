"""Session records as ConnectSession objects of the Kubernetes API.

On Kubernetes, the state of sessions should be stored where operators look for it. Each change is a single request that
includes the expected state of the object, so locks are not needed.

Guarantees in addition to those of :mod:`workspace.record_store`:

1. Writing a status, or any other change of the metadata, does not change the version of a record. Only a deletion
   request does.
2. ``list``, ``read`` and ``find`` return all changes that were acknowledged before the call.
3. Every change except a deletion writes a random revision. If the response to a change was lost, the revision shows
   whether the change has taken effect. If the response to a deletion request was lost, the removal of the finalizer
   decides which process has deleted the record. If the effect cannot be determined, RecordsUnavailableError is raised.
4. If an object is damaged or has an unknown format, every operation that reads it fails with RecordsUnavailableError,
   including ``list``. The message contains the name of the object.
5. When a record is deleted, its finalizer is removed last. If other finalizers still prevent the deletion of the
   object, the object no longer counts as a record.
6. Each change writes the holder label together with the ``spec``. Another program that changes the label can only
   delay the adoption of a session: ``list_held`` and a watch for a replica may then miss its record. No other operation
   depends on the label.

Source: [kubernetes-api "Resource versions"], [kubernetes-api "Finalizers"].
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus

from workspace import record_store
from workspace.identifiers import Principal, RecordName, ReplicaId, SessionUuid, is_uuid
from workspace.kubernetes import connect_session_objects, patches
from workspace.kubernetes.api_server import CHECK_API_SERVER, ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connect_session_api import ConnectSessionApi
from workspace.kubernetes.connect_session_objects import HOLDER_LABEL
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.object_watch import ObjectChanged, ObjectGone, ObjectsEvent, ObjectsListed, ObjectsUnreachable
from workspace.records import Phase, SessionRecord
from workspace.retries import retry_on

LARGEST_SPEC_BYTES = 1_400_000
"""The maximum size of a ``spec``: etcd's request limit of 1.5 MiB, minus space for metadata and other encodings."""

_CHECK_DEFINITION = "Check that the installed definition of connectsessions.sparklodge.io belongs to this release."
_PAUSE_AFTER_DAMAGE_SECONDS = 5.0
_MOST_ENDING = 10_000
"""The number of ending objects that are kept in memory, so that their deletion needs no further read."""


class _ContendedError(record_store.RecordsUnavailableError):
    """Raised if others changed the object but not the record; a transient error."""


_retry_contended = retry_on(_ContendedError, attempts=20, first_pause_seconds=0.005, longest_pause_seconds=0.2)


class KubernetesSessionRecords:
    """An implementation of ``SessionRecords`` on Kubernetes.

    It is safe for use by several threads.

    Args:
        connection: The connection to the API server.
        retry_policy: The time limits for requests.
    """

    def __init__(self, connection: Connection, retry_policy: RetryPolicy | None = None) -> None:
        self._instance = connection.instance
        self._api = ConnectSessionApi(connection, retry_policy)
        self._ending: dict[RecordName, JsonObject] = {}

    def create(self, record: SessionRecord) -> record_store.StoredRecord:
        """Store a new record."""
        revision = secrets.token_hex(8)
        body = connect_session_objects.new_object(record, self._instance, revision)
        _check_size(record, body["spec"])
        try:
            return self._stored(self._api.create(body))
        except ApiStatusError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise self._refused(record, error) from error
            return self._find_created(record.name, revision, error)

    def read(self, name: RecordName) -> record_store.StoredRecord:
        """Return the current state of a record."""
        return self._stored(self._live(name))

    def list(self) -> Sequence[record_store.StoredRecord]:
        """Return all records."""
        return _without_gone(self._api.list(self._stored_unless_gone))

    def find(self, session_uuid: SessionUuid) -> record_store.StoredRecord | None:
        """Return the record of a session, or None if it does not exist."""
        if not is_uuid(session_uuid):
            return None
        found = self._api.list_few(self._stored_unless_gone, "spec.sessionUuid", session_uuid)
        return next(iter(_without_gone(found)), None)

    def list_of_principal(self, principal: Principal) -> Sequence[record_store.StoredRecord]:
        """Return all records of a principal."""
        return _without_gone(self._api.list_few(self._stored_unless_gone, "spec.principal", principal))

    def list_held(self, replica: ReplicaId) -> Sequence[record_store.StoredRecord]:
        """Return all records that have a replica among their holders."""
        selector = connect_session_objects.selector_of_holder(replica)
        found = _without_gone(self._api.list(self._stored_unless_gone, selector))
        return [stored for stored in found if replica in stored.record.holders]

    def watch(self, stop: threading.Event, replica: ReplicaId | None = None) -> Iterator[record_store.RecordsEvent]:
        """Yield an event for each change until ``stop`` is set.

        If an object is damaged, the records are reported as unreachable.
        """
        labels = None if replica is None else connect_session_objects.selector_of_watch(replica)
        return record_store.filter_events(self._watch(stop, labels), replica)

    def _watch(self, stop: threading.Event, labels: str | None) -> Iterator[record_store.RecordsEvent]:
        while not stop.is_set():
            for event in self._api.watch(stop, self._stored_unless_gone, labels):
                try:
                    records_event = self._convert(event)
                except record_store.RecordsUnavailableError as error:
                    yield record_store.RecordsUnreachable(str(error))
                    break
                if records_event is not None:
                    yield records_event
            stop.wait(_PAUSE_AFTER_DAMAGE_SECONDS)

    def replace(self, record: SessionRecord, version: record_store.Version) -> record_store.StoredRecord:
        """Replace a record that still has the given version."""
        revision = secrets.token_hex(8)
        spec = connect_session_objects.spec_of(record, self._instance, revision)
        _check_size(record, spec)
        patch = patches.replace_at_version(version, "/spec", spec)
        try:
            found = self._change(record.name, version, revision, patch, record)
        except ApiStatusError as error:
            raise self._refused(record, error) from error
        if record.phase is Phase.ENDING and len(self._ending) < _MOST_ENDING:
            self._ending[record.name] = {"kind": found["kind"], "metadata": found["metadata"]}
        return self._stored(found)

    def delete(self, name: RecordName, version: record_store.Version) -> None:
        """Delete a record that still has the given version."""
        found = self._ending.pop(name, None) or self._live(name)
        if not _has_version(found, version, is_requested=False):
            found = self._live(name)
        is_requested = False

        @_retry_contended
        def attempt() -> None:
            nonlocal found, is_requested
            if not _has_version(found, version, is_requested=is_requested):
                raise _changed(name)
            try:
                if not connect_session_objects.is_deletion_requested(found):
                    found = self._api.delete(name, found)
                    is_requested = True
                # If the condition is false, another process has removed the finalizer.
                if found["kind"] == connect_session_objects.KIND and not connect_session_objects.is_gone(found):
                    self._api.patch(name, patches.remove_finalizer(found))
            except ApiStatusError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise (self._unclear(name) if error.was_lost else _not_found(name)) from error
                is_requested = is_requested or error.was_lost
                found = self._live(name)
                raise _contended(name) from error

        attempt()

    def add_holder_labels(self, should_stop: Callable[[], bool] = lambda: False) -> int:
        """Add the holder label to records that lack it, such as records of older releases.

        Args:
            should_stop: A function that returns whether to stop before the next record.

        Returns:
            The number of records that were labelled.

        Raises:
            RecordsUnavailableError: If the server cannot answer now.
        """
        labelled = 0
        for name, patch in self._api.list(self._missing_label, f"!{HOLDER_LABEL}"):
            if should_stop():
                break
            try:
                self._api.patch(name, patch)
            except ApiStatusError:
                continue  # the record has changed, so it has been labelled or deleted
            labelled += 1
        return labelled

    def _missing_label(self, found: JsonObject) -> tuple[RecordName, patches.Patch]:
        stored = self._stored(found)
        labels = connect_session_objects.labels_of_record(stored.record, self._instance)
        label = patches.set_label(HOLDER_LABEL, labels, has_labels=bool(found["metadata"].get("labels")))
        return stored.record.name, [*patches.test_state(found), *label]

    def _change(
        self,
        name: RecordName,
        version: record_store.Version,
        revision: str,
        patch: patches.Patch | None,
        record: SessionRecord,
    ) -> JsonObject:
        """Change an object that has the given version, and return the changed object.

        The patch must include the given revision. It is None if no object can have the given version. The holder label
        of the record is written as well.

        Raises:
            RecordError: If the record has changed or no longer exists, or if this cannot be determined now.
            ApiStatusError: If the object has the given version and the server refuses the change.
        """
        if patch is None:
            self._live(name)
            raise _changed(name)

        labels = connect_session_objects.labels_of_record(record, self._instance)
        has_labels = True

        @_retry_contended
        def attempt() -> JsonObject:
            nonlocal has_labels
            label = patches.set_label(HOLDER_LABEL, labels, has_labels=has_labels)
            try:
                return self._api.patch(name, [*patch, *label, *patches.remove_managed_fields()])
            except ApiStatusError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise _not_found(name) from error
                found = self._live(name)
                if connect_session_objects.revision_of(found) == revision:
                    return found
                if connect_session_objects.version_of(found) != version:
                    raise (self._unclear(name) if error.was_lost else _changed(name)) from error
                had_labels, has_labels = has_labels, bool(found["metadata"].get("labels"))
                if error.status == HTTPStatus.CONFLICT or has_labels != had_labels:
                    raise _contended(name) from error
                raise

        return attempt()

    def _find_created(self, name: RecordName, revision: str, error: ApiStatusError) -> record_store.StoredRecord:
        """Return the record if an earlier attempt has created it.

        Raises:
            RecordExistsError: If another process has created the record.
            RecordsUnavailableError: If this cannot be determined now.
        """
        exists = record_store.RecordExistsError(name, f"The session record [{name}] already exists.")
        try:
            found = self._read(name)
        except record_store.RecordNotFoundError:
            raise (self._unclear(name) if error.was_lost else exists) from error
        if connect_session_objects.is_gone(found):
            others = ", ".join(found["metadata"].get("finalizers", ()))
            raise self._api.unavailable(
                f"finalizers ({others}) keep the object of the deleted session record [{name}]",
                "Remove these finalizers.",
            )
        if connect_session_objects.revision_of(found) != revision:
            raise exists from error
        return self._stored(found)

    def _refused(self, record: SessionRecord, error: ApiStatusError) -> Exception:
        if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return _too_large(record, f"more than the API server accepts ({error.message})")
        return self._api.unavailable(error.message, _CHECK_DEFINITION)

    def _unclear(self, name: RecordName) -> record_store.RecordsUnavailableError:
        return self._api.unavailable(
            f"the response to a change of the session record [{name}] was lost",
            "The change may have taken effect. Read the record again.",
        )

    def _read(self, name: RecordName) -> JsonObject:
        try:
            return self._api.read(name)
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._api.unavailable(error.message, CHECK_API_SERVER) from error
            raise _not_found(name) from error

    def _live(self, name: RecordName) -> JsonObject:
        found = self._read(name)
        if connect_session_objects.is_gone(found):
            raise _not_found(name)
        return found

    def _stored_unless_gone(self, found: JsonObject) -> record_store.StoredRecord | None:
        return None if connect_session_objects.is_gone(found) else self._stored(found)

    def _stored(self, found: JsonObject) -> record_store.StoredRecord:
        try:
            return connect_session_objects.stored_record(found, self._instance)
        except ValueError as error:
            name = found.get("metadata", {}).get("name")
            raise self._api.unavailable(
                f"the ConnectSession [{name}] is damaged: {error}",
                "Restore the object, or delete it and remove its finalizer.",
            ) from error

    def _convert(self, event: ObjectsEvent) -> record_store.RecordsEvent | None:
        """Return the record event for an object event.

        Returns None if the object was never a record.
        """
        match event:
            case ObjectsListed(objects):
                return record_store.RecordsListed(tuple(_without_gone(objects)))
            case ObjectChanged(content) if not connect_session_objects.is_gone(content):
                return record_store.RecordChanged(self._stored(content))
            case ObjectChanged(content) | ObjectGone(content):
                return self._gone(content)
            case ObjectsUnreachable(reason):
                return record_store.RecordsUnreachable(reason)

    def _gone(self, content: JsonObject) -> record_store.RecordGone | None:
        """Return the event for a deleted record.

        Returns None if the name of the object is not the name of a record.
        """
        try:
            return record_store.RecordGone(connect_session_objects.record_name_of(content, self._instance))
        except ValueError:
            return None


def _without_gone(found: Sequence[record_store.StoredRecord | None]) -> Sequence[record_store.StoredRecord]:
    return [stored for stored in found if stored is not None]


def _has_version(found: JsonObject, version: record_store.Version, *, is_requested: bool) -> bool:
    """Return whether an object has a version, or has had it before this process requested the deletion.

    A deletion request increases the generation of an object by one.
    """
    now = connect_session_objects.version_of(found)
    if now == version:
        return True
    before = connect_session_objects.version_at(found, found["metadata"]["generation"] - 1)
    return is_requested and connect_session_objects.is_deletion_requested(found) and before == version


def _contended(name: RecordName) -> _ContendedError:
    return _ContendedError(name, f"Other processes keep changing the object of the session record [{name}]. Try again.")


def _check_size(record: SessionRecord, spec: JsonObject) -> None:
    size_bytes = len(json.dumps(spec, ensure_ascii=False).encode())
    if size_bytes > LARGEST_SPEC_BYTES:
        raise _too_large(record, f"a size of {size_bytes} bytes, but Kubernetes accepts {LARGEST_SPEC_BYTES}")


def _too_large(record: SessionRecord, what: str) -> record_store.RecordTooLargeError:
    return record_store.RecordTooLargeError(
        record.name,
        f"The record of session [{record.session_uuid}] with {len(record.tables)} temporary tables would have {what}. "
        "Drop temporary tables, or create tables with many columns or insertions in separate sessions.",
    )


def _not_found(name: RecordName) -> record_store.RecordNotFoundError:
    return record_store.RecordNotFoundError(name, f"The session record [{name}] does not exist. The session has ended.")


def _changed(name: RecordName) -> record_store.RecordConflictError:
    return record_store.RecordConflictError(
        name, f"The session record [{name}] has changed since it was read. Read it again."
    )
