"""Session locations in an object store.

For the interface, see :mod:`workspace.locations`.

An object store does not have directories or renames. Where a file system renames a directory, this module writes a
*tombstone*, which is an object in ``.lodge/trash/`` that marks its target as deleted
(:mod:`workspace.object_store.keys`). Moving a target to the trash means writing its tombstone. A purge deletes all
objects of the target and then the tombstone.

A reader lists tombstones before objects. Therefore, a target that had a tombstone when the reader started never
appears to be live, no matter how far its purge has progressed.

Guarantees in addition to the guarantees of :mod:`workspace.locations`:

1. A location is purged only while its tombstone exists, and only keys below ``<prefix>/<session uuid>/`` are deleted.
   Keys are strings and not paths, so no key refers to an object elsewhere.
2. A tombstone is removed only after a listing that found no objects. This listing starts after the tombstone was read
   and after the last deletion.
3. If a late writer creates objects after that, they form a new location. No session record refers to it, so it is an
   orphan. Unfinished multipart uploads are aborted when a location is purged.
4. A location that is in the trash cannot be created again until it has been purged.
5. A copy of a table is complete and shows the table at a single point in time. Otherwise, the copy fails.

Not guaranteed:

- While a location is being purged, a reader may see some of its objects.
- If several callers of :meth:`ObjectSessionLocations.move_to_trash` run concurrently on a server without conditional
  writes, more than one of them may get the result that it moved the location.
- :meth:`ObjectRoot.contents` may be outdated; see :mod:`workspace.object_store.contents_cache`.

There is always exactly one root, because a workspace in an object store cannot move. There are also no owners or
modes. The bucket policy determines who can read the objects.
"""

import errno
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import BinaryIO

from workspace.identifiers import SessionUuid, TableUuid, check_file_name, check_uuid, is_uuid
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
        address: The address of the workspace. It must be the same for all replicas and reapers.
        root_ids: The registry of root ids. None if ids are stored only in the roots.
        bucket: The bucket. None to open the bucket of the address.
        relist_seconds: The maximum age of the known contents of locations.
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
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
        """Generate an id for the root if it never had one.

        Each process calls this method when it starts.

        The id is recorded before it is written to the root. Therefore, processes that start concurrently write the
        same id, even on a server without conditional writes. If a process dies between these steps, the root has the
        id of its session records but no root id.

        Raises:
            RootError: If the root was replaced or belongs to another Lodge installation.
        """
        root = self._root
        # The expected id must be read before the root id, because other processes record the id before they write it.
        expected = self._identities.expected(root)
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
        """Check that the given root is the current root. No other root is accepted.

        Raises:
            RootError: If the given root is another root.
        """
        if root != self._root:
            raise RootError(
                f"The workspace in the object store at [{self._root}] cannot move to [{root}] while it is in use. "
                "Restart Lodge to change the workspace."
            )
        self._check()

    def known_roots(self) -> Sequence[StoragePath]:
        """Return the only root.

        Raises:
            RootError: If the root was replaced.
        """
        self._check()
        return [self._root]

    def roots(self) -> Sequence[ObjectRoot]:
        """Return the contents of the only root.

        Raises:
            RootError: If the root was replaced.
        """
        self._check()
        trash = frozenset(self._tombstones())
        return [ObjectRoot(trash, self._cache.refresh(self._list(trash)))]

    def create(self, session_uuid: SessionUuid, owner: Owner | None = None) -> StoragePath:
        """Create a session location, or return the existing one.

        Raises:
            FileNotFoundError: If the location is in the trash.
            OwnerError: If an owner is given.
            RootError: If the root was replaced.
        """
        uri = self._keys.uri(session_uuid)
        if owner is not None:
            raise OwnerError(errno.EPERM, "An object store has no OS users that could own a session location", uri)
        self._check()
        target = Target(session_uuid)
        self._require_live(target)
        self._bucket.put(f"{self._keys.prefix(target)}.location", b"")
        return uri

    def create_table(self, session_uuid: SessionUuid, table_uuid: TableUuid, file: Sequence[str]) -> None:
        """Create an empty object below the prefix of a table.

        Raises:
            FileNotFoundError: If the location or the table is in the trash.
        """
        names = [check_file_name(name) for name in file]
        self._check()
        target = Target(session_uuid, table_uuid)
        self._require_live(target)
        self._bucket.put(self._keys.prefix(target) + "/".join(names), b"")

    def list(self) -> Set[SessionUuid]:
        """Return the sessions that have a session location."""
        self._check()
        self._identities.check_records(self._root, self._records_id())
        return self._list(frozenset(self._tombstones()))

    def paths(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Return the location of a session, if it exists."""
        uri = self._keys.uri(session_uuid)
        self._check()
        return [uri] if self._exists(Target(session_uuid)) else []

    def move_to_trash(self, session_uuid: SessionUuid) -> Sequence[StoragePath]:
        """Write the tombstone of a session location, and return the location's URI.

        The result is empty if there is no live location.
        """
        uri = self._keys.uri(session_uuid)
        self._check()
        return [uri] if self._bury(Target(session_uuid)) else []

    def remove_table(self, session_uuid: SessionUuid, table_uuid: TableUuid) -> bool:
        """Write the tombstone of a table, and return whether the table was live."""
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
        """Return the total size of a table's objects.

        Raises:
            FileNotFoundError: If there is no live table.
        """
        target = Target(session_uuid, table_uuid)
        self._check()
        return sum(self._objects(target).values())

    def sum_data_files(
        self, session_uuid: SessionUuid, table_uuid: TableUuid, measure: Callable[[BinaryIO], int]
    ) -> None:
        """Return None, because objects are not opened here."""
        check_uuid(session_uuid), check_uuid(table_uuid)
        self._check()

    def copy_table(self, source: tuple[SessionUuid, TableUuid], target: tuple[SessionUuid, TableUuid]) -> None:
        """Copy a table into the existing location of another session.

        The data is copied inside the object store.

        Raises:
            FileNotFoundError: If the table does not exist or changed during the copy.
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
            raise FileNotFoundError(
                errno.ENOENT, "The table changed while it was being copied", self._keys.uri(source[0])
            )

    def trash(self) -> Sequence[TrashEntry]:
        """Return all entries of the trash."""
        self._check()
        return sorted(map(self._keys.entry, self._tombstones()))

    def trash_of(self, session_uuid: SessionUuid) -> Sequence[TrashEntry]:
        """Return the entries of the trash that belonged to a session."""
        check_uuid(session_uuid)
        self._check()
        return sorted(map(self._keys.entry, self._tombstones(f"{session_uuid}.")))

    def purge(self, entry: TrashEntry, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Delete all objects of an entry of the trash. This may take a long time.

        Args:
            entry: An entry that :meth:`trash` returned.
            should_stop: A function that is called before each thousand objects. When it returns True, the purge stops.

        Returns:
            Whether the entry was removed completely.

        Raises:
            OSError: If some objects could not be deleted. All other objects are deleted first, and the first error is
                raised.
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
        raise OSError(
            errno.ENOTEMPTY,
            "Another process keeps writing to this location",
            self._keys.uri(target.session_uuid),
        )

    def _delete_all(self, prefix: str, should_stop: Callable[[], bool]) -> bool:
        """Delete all objects with a key prefix. Return False if the deletion was stopped."""
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
        """Write the tombstone of a live target, and return whether this call wrote it."""
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
        """Check that neither a target nor its session location has a tombstone.

        Raises:
            FileNotFoundError: If there is a tombstone.
        """
        for each in {Target(target.session_uuid), target}:
            if self._bucket.get(self._keys.tombstone(each)) is not None:
                raise FileNotFoundError(
                    errno.ENOENT, "The location or table is in the trash", self._keys.uri(target.session_uuid)
                )

    def _objects(self, target: Target) -> Mapping[str, int]:
        """Return the keys and sizes of a table's objects.

        Raises:
            FileNotFoundError: If there is no live table.
        """
        self._require_live(target)
        pages = self._bucket.pages(self._keys.prefix(target))
        found = {each.key: each.size_bytes for page in pages for each in page}
        if not found:
            raise FileNotFoundError(errno.ENOENT, "The table does not exist", self._keys.uri(target.session_uuid))
        return found

    def _list(self, trash: Set[Target]) -> Set[SessionUuid]:
        """Return the sessions that have a location now and had no tombstone before."""
        names = self._bucket.names(self._keys.root)
        directories = {name.removesuffix("/") for name in names if name.endswith("/")}
        found = {SessionUuid(name) for name in directories if is_uuid(name)}
        return {session_uuid for session_uuid in found if Target(session_uuid) not in trash}

    def _tombstones(self, start: str = "") -> Iterator[Target]:
        """Yield the targets of all tombstones whose names begin with the given string."""
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
