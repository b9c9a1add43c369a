"""Session records as objects of the Kubernetes API.

Why it exists: on Kubernetes the truth about sessions belongs where operators look for it. An object is changed by one
request that names the state that it must be in, so no lock is needed.

Guarantees beside those of :mod:`workspace.records`:

1. A status that is written, or any other change of metadata, makes no version old. A request for deletion does.
2. ``list``, ``read`` and ``find`` see everything that was acknowledged before they were called.
3. A change whose answer was lost is recognised as one's own by the random revision that it wrote. Where that cannot
   tell, RecordsUnavailableError is raised.
4. An object that is damaged, or of an unknown format, makes reading fail with RecordsUnavailableError that names it,
   also in ``list``.
5. Of a deleted record the finalizer goes last. An object that stays after that, for the sake of others' finalizers, is
   no record any more.

Sources: Kubernetes API concepts ("Resource versions", "Finalizers").
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import TypeVar

import tenacity

from workspace.identifiers import is_uuid
from workspace.kubernetes import patches
from workspace.kubernetes.api_server import ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connect_session_api import ConnectSessionApi
from workspace.kubernetes.connect_session_objects import (
    KIND,
    is_deletion_requested,
    is_gone,
    new_object,
    record_name_of,
    revision_of,
    spec_of,
    stored_record,
    version_of,
)
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.object_watch import ObjectChanged, ObjectGone, ObjectsEvent, ObjectsListed, ObjectsUnreachable
from workspace.records import (
    RecordChanged,
    RecordConflictError,
    RecordExistsError,
    RecordGone,
    RecordName,
    RecordNotFoundError,
    RecordsEvent,
    RecordsListed,
    RecordsUnavailableError,
    RecordsUnreachable,
    RecordTooLargeError,
    SessionRecord,
    SessionUuid,
    StoredRecord,
    Version,
)

LARGEST_SPEC_BYTES = 1_400_000
"""What etcd takes in one request, 1.5 MiB, less room for metadata and for another spelling of the same JSON."""

_Outcome = TypeVar("_Outcome")

_ATTEMPTS = 20
_CHECK_DEFINITION = "Check that the definition connectsessions.sparklodge.io is the one of this release."
_PAUSE_AFTER_DAMAGE_SECONDS = 5.0


class KubernetesSessionRecords:
    """Implements :class:`workspace.records.SessionRecords`; safe to share between threads.

    Args:
        connection: Where they are.
        patience: How long a request may take.
    """

    def __init__(self, connection: Connection, patience: RetryPolicy | None = None) -> None:
        self._instance = connection.instance
        self._api = ConnectSessionApi(connection, patience)

    def create(self, record: SessionRecord) -> StoredRecord:
        revision = secrets.token_hex(8)
        body = new_object(record, self._instance, revision)
        _check_size(record, body["spec"])
        try:
            return self._stored(self._api.create(body))
        except ApiStatusError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise self._not_taken(record, error) from error
            return self._created_before(record.name, revision, error)

    def read(self, name: RecordName) -> StoredRecord:
        return self._stored(self._live(name))

    def list(self) -> Sequence[StoredRecord]:
        return self._records(self._api.list())

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        if not is_uuid(session_uuid):
            return None
        return next(iter(self._records(self._api.list(f"spec.sessionUuid={session_uuid}"))), None)

    def watch(self, stop: threading.Event) -> Iterator[RecordsEvent]:
        while not stop.is_set():
            for event in self._api.watch(stop):
                try:
                    news = self._of_records(event)
                except RecordsUnavailableError as error:
                    yield RecordsUnreachable(str(error))
                    break
                if news is not None:
                    yield news
            stop.wait(_PAUSE_AFTER_DAMAGE_SECONDS)

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        revision = secrets.token_hex(8)
        spec = spec_of(record, self._instance, revision)
        _check_size(record, spec)
        try:
            return self._stored(self._changed_once(record.name, version, revision, "/spec", spec))
        except ApiStatusError as error:
            raise self._not_taken(record, error) from error

    def delete(self, name: RecordName, version: Version) -> None:
        revision = secrets.token_hex(8)
        try:
            mine = self._changed_once(name, version, revision, "/spec/revision", revision)
        except ApiStatusError as error:
            raise self._api.unavailable(error.message, _CHECK_DEFINITION) from error

        def attempt() -> None:
            nonlocal mine
            try:
                self._remove(name, mine)
            except ApiStatusError as error:
                mine = self._still_mine(name, revision, error)
                raise _contended(name) from error

        _while_contended(attempt)

    def _remove(self, name: RecordName, found: JsonObject) -> None:
        """Raises: ApiStatusError if the object is not as it was found."""
        if not is_deletion_requested(found):
            found = self._api.delete(name, found)
        if found["kind"] == KIND and not is_gone(found):  # otherwise somebody had taken the finalizer off
            self._api.patch(name, patches.removal_of_finalizer(found))

    def _still_mine(self, name: RecordName, revision: str, error: ApiStatusError) -> JsonObject:
        """The object as it is now, if no one changed the record since it got the revision.

        Raises: RecordConflictError, RecordNotFoundError, RecordsUnavailableError
        """
        if error.status == HTTPStatus.NOT_FOUND:
            raise (self._unclear(name) if error.was_lost else _not_found(name)) from error
        found = self._live(name)
        if revision_of(found) != revision:
            raise _changed(name) from error
        return found

    def _changed_once(self, name: RecordName, version: Version, revision: str, path: str, value: object) -> JsonObject:
        """Makes a change of a version that writes a revision. Returns: The object with it.

        Raises: RecordError; ApiStatusError if the object is at that version and the change is not taken.
        """
        patch = patches.at_version(version, path, value)
        if patch is None:
            self._live(name)
            raise _changed(name)

        def attempt() -> JsonObject:
            try:
                return self._api.patch(name, patch)
            except ApiStatusError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    raise _not_found(name) from error
                found = self._live(name)
                if revision_of(found) == revision:
                    return found
                if version_of(found) != version:
                    raise (self._unclear(name) if error.was_lost else _changed(name)) from error
                if error.status == HTTPStatus.CONFLICT:
                    raise _contended(name) from error
                raise

        return _while_contended(attempt)

    def _created_before(self, name: RecordName, revision: str, error: ApiStatusError) -> StoredRecord:
        """The record, if an earlier attempt created it.

        Raises: RecordExistsError, RecordsUnavailableError
        """
        exists = RecordExistsError(name, f"There is a session record {name} already.")
        try:
            found = self._read(name)
        except RecordNotFoundError:
            raise (self._unclear(name) if error.was_lost else exists) from error
        if is_gone(found):
            others = ", ".join(found["metadata"].get("finalizers", ()))
            raise self._api.unavailable(
                f"the deleted session record {name} is held by finalizers ({others})", "Take them off."
            )
        if revision_of(found) != revision:
            raise exists from error
        return self._stored(found)

    def _not_taken(self, record: SessionRecord, error: ApiStatusError) -> Exception:
        if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return _too_large(record, f"more than the API server takes ({error.message})")
        return self._api.unavailable(error.message, _CHECK_DEFINITION)

    def _unclear(self, name: RecordName) -> RecordsUnavailableError:
        return self._api.unavailable(
            f"the answer to a change of session record {name} was lost", "It may have been made; read it again."
        )

    def _read(self, name: RecordName) -> JsonObject:
        try:
            return self._api.read(name)
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._api.unavailable(error.message, "Look after the API server.") from error
            raise _not_found(name) from error

    def _live(self, name: RecordName) -> JsonObject:
        found = self._read(name)
        if is_gone(found):
            raise _not_found(name)
        return found

    def _records(self, found: Sequence[JsonObject]) -> Sequence[StoredRecord]:
        return [self._stored(item) for item in found if not is_gone(item)]

    def _stored(self, found: JsonObject) -> StoredRecord:
        try:
            return stored_record(found, self._instance)
        except ValueError as error:
            name = found.get("metadata", {}).get("name")
            raise self._api.unavailable(
                f"the ConnectSession {name} is damaged: {error}", "Restore it, or delete it and take its finalizer off."
            ) from error

    def _of_records(self, event: ObjectsEvent) -> RecordsEvent | None:
        """None if it tells nothing of records."""
        match event:
            case ObjectsListed(objects):
                return RecordsListed(tuple(self._records(objects)))
            case ObjectChanged(content) if not is_gone(content):
                return RecordChanged(self._stored(content))
            case ObjectChanged(content) | ObjectGone(content):
                return self._gone(content)
            case ObjectsUnreachable(reason):
                return RecordsUnreachable(reason)

    def _gone(self, content: JsonObject) -> RecordGone | None:
        """None if its name was no record's: then it was never told of."""
        try:
            return RecordGone(record_name_of(content, self._instance))
        except ValueError:
            return None


class _ContendedError(RecordsUnavailableError):
    """The object was written to meanwhile, but not the record; the same may be tried again."""


def _contended(name: RecordName) -> _ContendedError:
    return _ContendedError(name, f"The session record {name} cannot be changed now: others write to it all the time.")


def _while_contended(attempt: Callable[[], _Outcome]) -> _Outcome:
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_ContendedError),
        wait=tenacity.wait_random_exponential(multiplier=0.005, max=0.2),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    return retrying(attempt)


def _check_size(record: SessionRecord, spec: JsonObject) -> None:
    size_bytes = len(json.dumps(spec, ensure_ascii=False).encode())
    if size_bytes > LARGEST_SPEC_BYTES:
        raise _too_large(record, f"{size_bytes} bytes, and Kubernetes takes {LARGEST_SPEC_BYTES}")


def _too_large(record: SessionRecord, what: str) -> RecordTooLargeError:
    return RecordTooLargeError(
        record.name,
        f"The record of session {record.session_uuid} with {len(record.tables)} temporary tables would have {what}. "
        "Drop temporary tables, or give those with many columns or insertions to sessions of their own.",
    )


def _not_found(name: RecordName) -> RecordNotFoundError:
    return RecordNotFoundError(name, f"There is no session record {name}; the session has ended.")


def _changed(name: RecordName) -> RecordConflictError:
    return RecordConflictError(name, f"The session record {name} was changed since it was read; read it again.")
