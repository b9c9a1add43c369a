"""Session locations in an object store; see :mod:`workspace.locations` for what they are.

There are no directories and no renames, so what a rename says on a file system, an object says here, a *mark*::

    <prefix>/<session uuid>/.location                          there is a location, also while it is empty
    <prefix>/<session uuid>/<table uuid>/...                   tables, as the backend writes them
    <prefix>/.lodge/trash/<session uuid>.location              the location was set aside
    <prefix>/.lodge/trash/<session uuid>.<table uuid>.table    the table was set aside
    <prefix>/.lodge/root                                       the id of this root (:mod:`workspace.files.roots`)
    <prefix>/.lodge/records                                    whose session records say what lives in this root

Setting aside writes the mark; purging deletes the objects, and the mark last. Whoever looks asks for marks first, and
for objects second: so nothing that was marked before it began to look is ever taken for living, however far its purge
has come meanwhile.

Guarantees, beside those of all session locations:

1. Only keys below ``<prefix>/<session uuid>/`` are ever deleted with a location, and only while its mark is there. Keys
   are texts here, so none of them leads anywhere else.
2. A mark goes only after a listing that began after it was seen, and after the last deletion, found nothing.
3. What a late writer writes after that is a location again, which no record names: an orphan. What it was still
   uploading in parts is given up with the location.
4. A location that was set aside is not made again before it was purged.
5. A table is copied as a whole, as it was at one time, or not at all.

Not guaranteed: that a reader sees all or nothing while a location is purged; that of several processes that set aside
at once only one is told that it did, on a server that knows no conditional writes; nor what is in locations to the
second: :meth:`ObjectRoot.inside` may be as old as ``relist_seconds``, because each look is a request that costs money,
or older, and nothing at first, where there are more locations than can be listed in ``LISTING_SECONDS``.

There is one root, for ever: a workspace in an object store does not move. There are no owners and no modes either; who
may read is the matter of the bucket's policy.
"""

import errno
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from workspace.identifiers import check_uuid, is_uuid
from workspace.locations import LocationContents, Owner, OwnerError
from workspace.object_store.addresses import ObjectAddress
from workspace.object_store.bucket import ObjectStore, ObjectStoreError
from workspace.records import SessionUuid, TableUuid
from workspace.root_identities import RootError, RootIdentities, RootIds
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry

RELIST_SECONDS = 300.0
LISTING_SECONDS = 20.0
_LISTINGS = 16
_PURGES = 10
_COPIES = 8
_MOST_DIRECTORIES = 10_000
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MARK = re.compile(rf"({_UUID})\.(?:location|({_UUID})\.table)")


@dataclass(frozen=True, slots=True)
class _Listed:
    """What was in a location when it was last listed; None if it was none. Or why it could not be listed."""

    inside: LocationContents | OSError | None
    at_seconds: float

    @property
    def is_listed(self) -> bool:
        return not isinstance(self.inside, OSError)


class ObjectSessionLocations:
    """The session locations below a prefix of a bucket.

    Args:
        address: Where the workspace is; shared by all replicas and reapers.
        root_ids: Where ids of roots are recorded; None if they are on the roots' own storage only.
        store: The bucket; None to open it.
        relist_seconds: How old what is known of the inside of locations may be.
        monotonic: A clock, in seconds.
    """

    def __init__(
        self,
        address: ObjectAddress,
        root_ids: RootIds | None = None,
        *,
        store: ObjectStore | None = None,
        relist_seconds: float = RELIST_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._store = ObjectStore(address) if store is None else store
        self._identities = RootIdentities(root_ids)
        self._relist_seconds = relist_seconds
        self._monotonic = monotonic
        self._listed: MutableMapping[SessionUuid, _Listed] = {}
        self._lock = threading.Lock()

    @property
    def _marker(self) -> str:
        return f"{self._address.prefix}/.lodge/root"

    @property
    def _records(self) -> str:
        return f"{self._address.prefix}/.lodge/records"

    def initialise(self) -> None:
        """Gives the root an id, if it never had one; to be called when a process starts.

        The id is recorded before it is written: so all who start at once write the same, also on a server that knows no
        conditional writes. One who dies in between leaves a root that has no id, but says that it is these records'.
        """
        root = self._address.storage_path
        expected = self._identities.expected(root)  # first: others record the id that they will write
        root_id, records_id = self._root_id(), self._records_id()
        is_begun = root_id is None and self._identities.are_recorded and records_id == self._identities.records_id()
        if expected is not None and not is_begun:
            self._identities.check(root, root_id)
        self._identities.check_records(root, records_id)
        if records_id is None:
            if root_id is not None and expected is None and self._there(frozenset(self._marks())):
                raise self._identities.taken_error(root, "unknown session records")
            self._store.put_new(self._records, self._identities.records_id().encode())
            self._identities.check_records(root, self._records_id())
        if root_id is None:
            self._store.put_new(self._marker, self._identities.record(root, secrets.token_hex(16)).encode())
            root_id = self._root_id()
        self._identities.establish(root, root_id)

    def set_current_root(self, root: StoragePath) -> None:
        """Raises: RootError if it is not the same root."""
        current = self._address.storage_path
        if root != current:
            raise RootError(
                f"The workspace is in the object store at [{current}]. It cannot move to [{root}] while it is in use. "
                "Restart Lodge to change it."
            )
        self._check()

    def known_roots(self) -> Sequence[StoragePath]:
        """The only one. Raises: RootError if it is not what it was."""
        self._check()
        return [self._address.storage_path]

    def roots(self) -> Sequence["ObjectRoot"]:
        """The only one, as it is now. Raises: RootError if it cannot be read."""
        self._check()
        trash = frozenset(self._marks())
        there = self._there(trash)
        self._relist(there)
        with self._lock:
            return [ObjectRoot(trash, {each: self._listed[each].inside for each in there if each in self._listed})]

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        """Makes the session location, or takes the one that is there.

        Raises: FileNotFoundError if it was set aside; OwnerError if an owner is given; RootError; OSError.
        """
        place = self._place(session_uuid)
        if owner is not None:
            raise OwnerError(errno.EPERM, "An object store has no OS users that a location could belong to", place)
        self._check()
        self._check_is_live(session_uuid)
        self._store.put(f"{self._prefix(session_uuid)}.location", b"")
        return place

    def list(self) -> Set[SessionUuid]:
        """The sessions that have a location."""
        self._check()
        self._identities.check_records(self._address.storage_path, self._records_id())
        return self._there(frozenset(self._marks()))

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """The location of a session, if it is there."""
        place = self._place(session_uuid)
        self._check()
        return [place] if self._is_there(session_uuid, None) else []

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Marks the location of a session as trash.

        Returns: Where it is; nothing if there is none, or it was set aside already.
        """
        place = self._place(session_uuid)
        self._check()
        return [place] if self._set_aside(session_uuid, None) else []

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Marks one table as trash. Returns: False if there is none, or it was set aside already."""
        check_uuid(session_uuid), check_uuid(table_uuid)
        self._check()
        is_removed = self._set_aside(session_uuid, table_uuid)
        self._forget(session_uuid)
        return is_removed

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[StoragePath]:
        """Where several tables are, or would be."""
        places = [f"{self._place(session_uuid)}/{check_uuid(table_uuid)}" for table_uuid in tables]
        self._check()
        return places

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """The sizes of all objects of a table. Raises: FileNotFoundError if there are none, or it was set aside."""
        check_uuid(session_uuid), check_uuid(table_uuid)
        self._check()
        return sum(self._objects(session_uuid, table_uuid).values())

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Gives a session whose location is there a copy of a table; the bytes stay in the store.

        Raises: FileNotFoundError if the table is gone, or went meanwhile; OSError.
        """
        self._check()
        old, new = self._prefix(*source), self._prefix(*target)
        objects = self._objects(*source)
        with ThreadPoolExecutor(_COPIES, thread_name_prefix="copies") as executor:
            for _ in executor.map(lambda key: self._store.copy(key, new + key.removeprefix(old)), objects):
                pass
        if self._objects(*source) != objects:
            raise FileNotFoundError(errno.ENOENT, "A table changed while it was copied", f"{self._place(source[0])}")

    def trash(self) -> Sequence[TrashEntry]:
        """All that was set aside and not purged yet."""
        self._check()
        return [self._entry(*mark) for mark in sorted(self._marks(), key=str)]

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """What was set aside of one session, and not purged yet."""
        check_uuid(session_uuid)
        self._check()
        return [self._entry(*mark) for mark in sorted(self._marks(session_uuid), key=str)]

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Deletes all objects of something that was set aside; may take long.

        Args:
            entry: As :meth:`trash` returned it.
            should_stop: Asked after each thousand objects; once it says yes, the purge ends.

        Returns: Whether all of it is gone.
        Raises: OSError for the first objects that could not be deleted, after trying all the others.
        """
        session_uuid, table_uuid = self._mark(entry)
        self._check()
        mark = self._mark_key(session_uuid, table_uuid)
        if self._store.get(mark) is None:
            return True
        prefix = self._prefix(session_uuid, table_uuid)
        for _ in range(_PURGES):
            if not self._delete_all(prefix, should_stop):
                return False
            self._store.abort_uploads(prefix)
            if self._store.is_empty(prefix):
                self._store.delete([mark])
                self._forget(session_uuid)
                return True
        raise OSError(errno.ENOTEMPTY, "Someone goes on writing here", self._place(session_uuid))

    def _delete_all(self, prefix: str, should_stop: Callable[[], bool]) -> bool:
        """Deletes what is below a prefix. Returns: False if it was told to stop."""
        failure: ObjectStoreError | None = None
        for page in self._store.pages(prefix):
            if should_stop():
                return False
            try:
                self._store.delete([each.key for each in page])
            except ObjectStoreError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return True

    def _set_aside(self, session_uuid: SessionUuid, table_uuid: TableUuid | None) -> bool:
        if not self._is_there(session_uuid, table_uuid):
            return False
        return self._store.put_new(self._mark_key(session_uuid, table_uuid), secrets.token_hex(16).encode())

    def _is_there(self, session_uuid: SessionUuid, table_uuid: TableUuid | None) -> bool:
        """Whether there is something, and it was not set aside."""
        with suppress(FileNotFoundError):
            self._check_is_live(session_uuid, table_uuid)
            return not self._store.is_empty(self._prefix(session_uuid, table_uuid))
        return False

    def _check_is_live(self, session_uuid: SessionUuid, table_uuid: TableUuid | None = None) -> None:
        """Raises: FileNotFoundError if something was set aside, itself or with its location."""
        for mark in {(session_uuid, None), (session_uuid, table_uuid)}:
            if self._store.get(self._mark_key(*mark)) is not None:
                raise FileNotFoundError(errno.ENOENT, "It was set aside", self._place(session_uuid))

    def _objects(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> Mapping[str, int]:
        """The sizes of a table's objects by their keys.

        Raises: FileNotFoundError if there are none, or it was set aside.
        """
        self._check_is_live(session_uuid, table_uuid)
        pages = self._store.pages(self._prefix(session_uuid, table_uuid))
        found = {each.key: each.size_bytes for page in pages for each in page}
        if not found:
            raise FileNotFoundError(errno.ENOENT, "There is no such table", self._place(session_uuid))
        return found

    def _there(self, trash: Set[tuple[SessionUuid, TableUuid | None]]) -> Set[SessionUuid]:
        """The sessions that have a location now, without those that were set aside before."""
        names = self._store.names(f"{self._address.prefix}/")
        there = {name.removesuffix("/") for name in names if name.endswith("/")}
        return {SessionUuid(name) for name in there if is_uuid(name)} - {each for each, table in trash if table is None}

    def _relist(self, there: Set[SessionUuid]) -> None:
        """Lists the locations of which nothing is known, or only what is too old; as many as the time allows.

        Those come first that were never tried, then those that were tried longest ago, whether they failed or not: so
        each has its turn, however many fail.
        """
        begun_seconds = self._monotonic()
        with self._lock:
            known = {each: listed for each, listed in self._listed.items() if each in there}
            self._listed = dict(known)

        def relist(session_uuid: SessionUuid) -> None:
            now_seconds = self._monotonic()
            if now_seconds - begun_seconds >= LISTING_SECONDS:
                return
            found: LocationContents | OSError | None
            try:
                found = self._inside(session_uuid)
            except OSError as error:
                found = error
            with self._lock:
                self._listed[session_uuid] = _Listed(found, now_seconds)

        latest_seconds = begun_seconds - self._relist_seconds
        fresh = {each for each, listed in known.items() if listed.is_listed and listed.at_seconds > latest_seconds}
        due = sorted(there - fresh, key=lambda each: known[each].at_seconds if each in known else -math.inf)
        with ThreadPoolExecutor(_LISTINGS, thread_name_prefix="listings") as executor:
            for _ in executor.map(relist, due):
                pass

    def _inside(self, session_uuid: SessionUuid) -> LocationContents | None:
        tables, foreign, is_there = set[TableUuid](), set[str](), False
        for name in self._store.names(self._prefix(session_uuid)):
            is_there = True
            directory = name.removesuffix("/")
            if not name.endswith("/") or len(tables) + len(foreign) >= _MOST_DIRECTORIES:
                continue
            if is_uuid(directory):
                tables.add(TableUuid(directory))
            else:
                foreign.add(directory)
        return LocationContents(frozenset(tables), len(foreign)) if is_there else None

    def _forget(self, session_uuid: SessionUuid) -> None:
        with self._lock:
            self._listed.pop(session_uuid, None)

    def _check(self) -> None:
        self._identities.check(self._address.storage_path, self._root_id())

    def _root_id(self) -> str | None:
        root_id = self._store.get(self._marker)
        return None if root_id is None else root_id.decode("ascii", "replace")

    def _records_id(self) -> str | None:
        records_id = self._store.get(self._records)
        return None if records_id is None else records_id.decode("utf-8", "replace")

    def _marks(self, session_uuid: SessionUuid | None = None) -> Iterator[tuple[SessionUuid, TableUuid | None]]:
        """What was set aside: sessions, and with a table, tables."""
        begin = "" if session_uuid is None else f"{session_uuid}."
        for name in self._store.names(f"{self._trash}{begin}"):
            found = _MARK.fullmatch(begin + name)
            if found is not None:
                yield SessionUuid(found[1]), TableUuid(found[2]) if found[2] else None

    @property
    def _trash(self) -> str:
        return f"{self._address.prefix}/.lodge/trash/"

    def _mark_key(self, session_uuid: SessionUuid, table_uuid: TableUuid | None) -> str:
        return f"{self._trash}{check_uuid(session_uuid)}.{_kind(table_uuid)}"

    def _entry(self, session_uuid: SessionUuid, table_uuid: TableUuid | None) -> TrashEntry:
        return TrashEntry(f"s3://{self._address.bucket}/{self._mark_key(session_uuid, table_uuid)}")

    def _mark(self, entry: TrashEntry) -> tuple[SessionUuid, TableUuid | None]:
        found = _MARK.fullmatch(entry.rpartition("/")[2])
        if found is not None:
            mark = SessionUuid(found[1]), TableUuid(found[2]) if found[2] else None
            if self._entry(*mark) == entry:
                return mark
        raise ValueError(f"Not an entry of the trash: {entry!r}")

    def _prefix(self, session_uuid: SessionUuid, table_uuid: TableUuid | None = None) -> str:
        location = f"{self._address.prefix}/{check_uuid(session_uuid)}/"
        return location if table_uuid is None else f"{location}{check_uuid(table_uuid)}/"

    def _place(self, session_uuid: SessionUuid) -> str:
        return f"{self._address.storage_path}/{check_uuid(session_uuid)}"


class ObjectRoot:
    """What is in the session locations, without what was set aside when this was made.

    Args:
        trash: What was set aside.
        known: What is known of the inside of locations; None if there is none, an error if it could not be listed.
    """

    def __init__(
        self,
        trash: Set[tuple[SessionUuid, TableUuid | None]],
        known: Mapping[SessionUuid, LocationContents | OSError | None],
    ) -> None:
        self._trash = trash
        self._known = known

    def stamp(self, session_uuid: SessionUuid) -> Hashable:
        """What is in the location itself, as nothing else tells of a change."""
        found = self._found(session_uuid)
        return str(found) if isinstance(found, OSError) else found

    def contents(self, session_uuid: SessionUuid) -> LocationContents:
        found = self._found(session_uuid)
        if isinstance(found, OSError):
            raise found
        return found or LocationContents(frozenset(), 0)

    def _found(self, session_uuid: SessionUuid) -> LocationContents | OSError | None:
        check_uuid(session_uuid)
        found = self._known.get(session_uuid)
        if found is None or isinstance(found, OSError):
            return found
        gone = {table_uuid for table_uuid in found.tables if (session_uuid, table_uuid) in self._trash}
        return LocationContents(frozenset(found.tables - gone), found.foreign_count)


def _kind(table_uuid: TableUuid | None) -> str:
    return "location" if table_uuid is None else f"{check_uuid(table_uuid)}.table"
