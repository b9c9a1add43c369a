"""Session locations in an object store.

See :mod:`workspace.locations` for the interface.

An object store has no directories and no renames. A *tombstone* replaces the rename of a file system: it is an object
in ``.lodge/trash/`` that marks its target as deleted (:mod:`workspace.object_store.keys`). Moving to the trash writes
the tombstone. A purge deletes the objects, and the tombstone last.

A reader lists tombstones first and objects second. So it never takes something for live that had a tombstone before it
started, however far the purge is by then.

Guarantees in addition to those of all session locations:

1. Only keys below ``<prefix>/<session uuid>/`` are deleted with a location, and only while its tombstone exists. Keys
   are texts, never paths, so no key leads anywhere else.
2. A tombstone is removed only after a listing that found nothing. That listing starts after the tombstone was read and
   after the last deletion.
3. What a late writer creates after that is a location again. No record names it, so it is an orphan. Its unfinished
   multi-part uploads are aborted with the location.
4. A location in the trash cannot be created again before it is purged.
5. A table is copied completely, as it was at one time, or not at all.

Not guaranteed:

- That a reader sees all or nothing while a location is purged.
- That only one of several concurrent callers of :meth:`ObjectSessionLocations.move_to_trash` learns that it did it, on
  a server without conditional writes.
- That :meth:`ObjectRoot.contents` is recent; see :mod:`workspace.object_store.contents_cache`.

There is one root, for ever: a workspace in an object store does not move. There are no owners and no modes either; the
policy of the bucket decides who may read.
"""

import errno
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from workspace.identifiers import SessionUuid, TableUuid, check_uuid, is_uuid
from workspace.locations import Owner, OwnerError
from workspace.object_store.addresses import ObjectAddress
from workspace.object_store.bucket import Bucket
from workspace.object_store.contents_cache import RELIST_SECONDS, ContentsCache, ObjectRoot
from workspace.object_store.keys import Keys, Target, parse_tombstone
from workspace.object_store.s3_client import ObjectStoreError
from workspace.root_identities import RootError, RootIdentities, RootIds
from workspace.storage_paths import StoragePath
from workspace.trash_entries import TrashEntry

_PURGES = 10
_COPIES = 8


class ObjectSessionLocations:
    """The session locations below a prefix of a bucket.

    Args:
        address: The workspace; the same for all replicas and reapers.
        root_ids: The registry of root ids; None if the ids are stored only in the roots.
        bucket: The bucket; None to open it.
        relist_seconds: The maximal age of the known contents of locations.
        monotonic: A clock, in seconds.
    """

    def __init__(
        self,
        address: ObjectAddress,
        root_ids: RootIds | None = None,
        *,
        bucket: Bucket | None = None,
        relist_seconds: float = RELIST_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = address.storage_path
        self._bucket = Bucket(address) if bucket is None else bucket
        self._keys = Keys(address)
        self._identities = RootIdentities(root_ids)
        self._cache = ContentsCache(self._bucket, self._keys, relist_seconds=relist_seconds, monotonic=monotonic)

    def initialise(self) -> None:
        """Give the root an id if it never had one. Each process calls this when it starts.

        The id is recorded before it is written. So processes that start concurrently write the same id, even on a
        server without conditional writes. A process that dies in between leaves a root without an id that names its
        records.

        Raises:
            RootError: If the root was replaced, or belongs to another Lodge.
        """
        root = self._root
        expected = self._identities.expected(root)  # read this first, because others record before they write
        root_id, records_id = self._root_id(), self._records_id()
        is_begun = root_id is None and self._identities.are_recorded and records_id == self._identities.records_id()
        if expected is not None and not is_begun:
            self._identities.check(root, root_id)
        self._identities.check_records(root, records_id)
        if records_id is None:
            if root_id is not None and expected is None and self._list(frozenset(self._tombstones())):
                raise self._identities.taken_error(root, "unknown session records")
            self._bucket.put_new(self._keys.records_id, self._identities.records_id().encode())
            self._identities.check_records(root, self._records_id())
        if root_id is None:
            self._bucket.put_new(self._keys.root_id, self._identities.record(root, secrets.token_hex(16)).encode())
            root_id = self._root_id()
        self._identities.establish(root, root_id)

    def set_current_root(self, root: StoragePath) -> None:
        """Accept the current root only.

        Raises:
            RootError: If it is another root.
        """
        if root != self._root:
            raise RootError(
                f"The workspace is in the object store at [{self._root}]. It cannot move to [{root}] while it is in "
                "use. Restart Lodge to change it."
            )
        self._check()

    def known_roots(self) -> Sequence[StoragePath]:
        """Return the only root.

        Raises:
            RootError: If it was replaced.
        """
        self._check()
        return [self._root]

    def roots(self) -> Sequence[ObjectRoot]:
        """Return the contents of the only root.

        Raises:
            RootError: If it was replaced.
        """
        self._check()
        trash = frozenset(self._tombstones())
        return [ObjectRoot(trash, self._cache.refresh(self._list(trash)))]

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        """Create the session location, or return the existing one.

        Raises:
            FileNotFoundError: If the location is in the trash.
            OwnerError: If an owner is given.
            RootError: If the root was replaced.
        """
        uri = self._keys.uri(session_uuid)
        if owner is not None:
            raise OwnerError(errno.EPERM, "An object store has no OS users that could own a location", uri)
        self._check()
        target = Target(session_uuid)
        self._require_live(target)
        self._bucket.put(f"{self._keys.prefix(target)}.location", b"")
        return uri

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a location."""
        self._check()
        self._identities.check_records(self._root, self._records_id())
        return self._list(frozenset(self._tombstones()))

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Return the location of a session, if it exists."""
        uri = self._keys.uri(session_uuid)
        self._check()
        return [uri] if self._exists(Target(session_uuid)) else []

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Write the tombstone of a location, and return its URI.

        Returns nothing if there is no live location.
        """
        uri = self._keys.uri(session_uuid)
        self._check()
        return [uri] if self._bury(Target(session_uuid)) else []

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Write the tombstone of a table, and return whether there was a live table."""
        target = Target(session_uuid, table_uuid)
        self._check()
        is_removed = self._bury(target)
        self._cache.forget(session_uuid)
        return is_removed

    def table_paths(self, session_uuid: SessionUuid, tables: Sequence[TableUuid]) -> Sequence[StoragePath]:
        """Return the URI of each table, whether or not the table exists."""
        uris = [f"{self._keys.uri(session_uuid)}/{check_uuid(table_uuid)}" for table_uuid in tables]
        self._check()
        return uris

    def size_bytes(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> int:
        """Return the total size of the objects of a table.

        Raises:
            FileNotFoundError: If there is no live table.
        """
        target = Target(session_uuid, table_uuid)
        self._check()
        return sum(self._objects(target).values())

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Copy a table to another session that has a location, inside the object store.

        Raises:
            FileNotFoundError: If the table is gone, or changed during the copy.
            OSError: If the table cannot be copied.
        """
        self._check()
        original = Target(*source)
        old, new = self._keys.prefix(original), self._keys.prefix(Target(*target))
        objects = self._objects(original)
        with ThreadPoolExecutor(_COPIES, thread_name_prefix="copies") as executor:
            for _ in executor.map(lambda key: self._bucket.copy(key, new + key.removeprefix(old)), objects):
                pass
        if self._objects(original) != objects:
            raise FileNotFoundError(errno.ENOENT, "A table changed while it was copied", self._keys.uri(source[0]))

    def trash(self) -> Sequence[TrashEntry]:
        """Return everything in the trash."""
        self._check()
        return sorted(map(self._keys.entry, self._tombstones()))

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return what the trash contains of one session."""
        check_uuid(session_uuid)
        self._check()
        return sorted(map(self._keys.entry, self._tombstones(f"{session_uuid}.")))

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Delete all objects of an entry of the trash; may take long.

        Args:
            entry: An entry that :meth:`trash` returned.
            should_stop: Called after each thousand objects. When it returns True, the purge stops.

        Returns:
            Whether the entry is gone.

        Raises:
            OSError: If objects could not be deleted. The first such error, raised after trying all the rest.
        """
        target = self._keys.target_of(entry)
        self._check()
        tombstone, prefix = self._keys.tombstone(target), self._keys.prefix(target)
        if self._bucket.get(tombstone) is None:
            return True
        for _ in range(_PURGES):
            if not self._delete_all(prefix, should_stop):
                return False
            self._bucket.abort_uploads(prefix)
            if self._bucket.is_empty(prefix):
                self._bucket.delete([tombstone])
                self._cache.forget(target.session_uuid)
                return True
        raise OSError(errno.ENOTEMPTY, "Someone keeps writing here", self._keys.uri(target.session_uuid))

    def _delete_all(self, prefix: str, should_stop: Callable[[], bool]) -> bool:
        """Delete all objects below a prefix, and return False if the deletion was stopped."""
        failure: ObjectStoreError | None = None
        for page in self._bucket.pages(prefix):
            if should_stop():
                return False
            try:
                self._bucket.delete([each.key for each in page])
            except ObjectStoreError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return True

    def _bury(self, target: Target) -> bool:
        """Write the tombstone of a live target, and return whether this call did it."""
        if not self._exists(target):
            return False
        return self._bucket.put_new(self._keys.tombstone(target), secrets.token_hex(16).encode())

    def _exists(self, target: Target) -> bool:
        """Return whether a target has objects and no tombstone."""
        with suppress(FileNotFoundError):
            self._require_live(target)
            return not self._bucket.is_empty(self._keys.prefix(target))
        return False

    def _require_live(self, target: Target) -> None:
        """Raise FileNotFoundError if a target or its location has a tombstone."""
        for each in {Target(target.session_uuid), target}:
            if self._bucket.get(self._keys.tombstone(each)) is not None:
                raise FileNotFoundError(errno.ENOENT, "It is in the trash", self._keys.uri(target.session_uuid))

    def _objects(self, target: Target) -> Mapping[str, int]:
        """Return the sizes of the objects of a table by their keys.

        Raises:
            FileNotFoundError: If there is no live table.
        """
        self._require_live(target)
        pages = self._bucket.pages(self._keys.prefix(target))
        found = {each.key: each.size_bytes for page in pages for each in page}
        if not found:
            raise FileNotFoundError(errno.ENOENT, "There is no such table", self._keys.uri(target.session_uuid))
        return found

    def _list(self, trash: Set[Target]) -> Set[SessionUuid]:
        """Return the sessions that have a location now and had no tombstone before."""
        names = self._bucket.names(self._keys.root)
        directories = {name.removesuffix("/") for name in names if name.endswith("/")}
        found = {SessionUuid(name) for name in directories if is_uuid(name)}
        return {session_uuid for session_uuid in found if Target(session_uuid) not in trash}

    def _tombstones(self, start: str = "") -> Iterator[Target]:
        """Yield the targets of all tombstones whose names begin with a text."""
        for name in self._bucket.names(self._keys.trash + start):
            target = parse_tombstone(start + name)
            if target is not None:
                yield target

    def _check(self) -> None:
        self._identities.check(self._root, self._root_id())

    def _root_id(self) -> str | None:
        root_id = self._bucket.get(self._keys.root_id)
        return None if root_id is None else root_id.decode("ascii", "replace")

    def _records_id(self) -> str | None:
        records_id = self._bucket.get(self._keys.records_id)
        return None if records_id is None else records_id.decode("utf-8", "replace")
