"""The identities of roots, which protect against using the wrong storage.

Without these checks, two mistakes would cause the reaper to delete live sessions:

- If a file system is not mounted, or a bucket was replaced, the root looks like an empty workspace.
- If a process uses the wrong session records, every session location looks like an orphan, because no record refers to
  it.

Therefore, each root contains a random id and the id of the session records that refer to its contents. This module
checks both ids, for roots on file systems (:mod:`workspace.files.roots`) and for roots in object stores. If the
session records are not stored in the roots themselves, the ids of the roots are also recorded there; see
:class:`RootIds`.
"""

import errno
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from workspace.record_store import RecordsUnavailableError
from workspace.storage_paths import OWN_DIRECTORY

FILES = "files"
"""The records id in a root whose session records are files."""


class RootError(OSError):
    """Base class for errors of a root, with instructions for the operator as message.

    ::

        RootError
        ├── RootUnavailableError  a root is missing or was replaced by other storage
        │   └── HomeReplacedError another home is at the path of a home with session records
        ├── RootTakenError        a root belongs to another home or to other session records
        └── HomeMovedError        a home has become part of another home
    """

    def __init__(self, message: str) -> None:
        super().__init__(errno.EIO, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class RootUnavailableError(RootError):
    """Raised if a root is missing or was replaced by other storage."""


class HomeReplacedError(RootUnavailableError):
    """Raised if another home is at the path of a home that contains session records."""


class RootTakenError(RootError):
    """Raised if a root belongs to another home or to other session records."""


class HomeMovedError(RootError):
    """Raised if a home has become part of another home."""


class RootIds(Protocol):
    """A registry of root ids, used if session records are not stored in the roots.

    Every method raises RecordsUnavailableError if the registry cannot answer.
    """

    def records_id(self) -> str:
        """Return the unique id of the session records.

        The id never changes, and is different from the id of any other session records.
        """
        ...

    def expected(self, root: str) -> str | None:
        """Return the recorded id of a root, or None if no id was recorded."""
        ...

    def record(self, root: str, root_id: str) -> str:
        """Record the id of a root if no id has been recorded yet.

        Returns:
            The recorded id, which may be an id that was recorded earlier.
        """
        ...


class RootIdentities:
    """The expected identity of each root.

    The expected id of a root is the recorded id or, if no id was recorded, the id that this process found first.

    Args:
        root_ids: The registry of root ids. None if ids are stored only in the roots.
        seen: The ids that a former process has found, by root.
    """

    def __init__(self, root_ids: RootIds | None, seen: Mapping[str, str] = MappingProxyType({})) -> None:
        self._root_ids = root_ids
        self._seen = dict(seen)
        self._records_id = FILES if root_ids is None else None

    @property
    def seen(self) -> Mapping[str, str]:
        """The ids that this process or a former one has found, by root."""
        return dict(self._seen)

    @property
    def are_recorded(self) -> bool:
        """Whether root ids are recorded in a registry."""
        return self._root_ids is not None

    def records_id(self) -> str:
        """Return the id of the session records that this process uses.

        Raises:
            RootUnavailableError: If the registry cannot answer.
        """
        if self._records_id is None and self._root_ids is not None:
            try:
                self._records_id = self._root_ids.records_id()
            except RecordsUnavailableError as error:
                raise RootUnavailableError(f"The id of the session records cannot be read: {error}") from error
        return self._records_id or FILES

    def check_records(self, root: str, found: str | None) -> None:
        """Check that a root belongs to the session records of this process.

        Args:
            root: The root to check.
            found: The id of the session records that the root contains, or None.

        Raises:
            RootTakenError: If the root belongs to other session records.
        """
        if found is not None and found != self.records_id():
            raise self.taken_error(root, f"the session records of [{found}]", ["records"])

    def taken_error(self, root: str, owner: str, said_in: Sequence[str] = ()) -> RootTakenError:
        """Return the error for a root that belongs to other session records.

        The error message explains how to release the root.
        """
        names = said_in if self.are_recorded and self.expected(root) is not None else [*said_in, "root"]
        files = " and ".join(f"[{root}/{OWN_DIRECTORY}/{name}]" for name in names)
        return RootTakenError(
            f"The root [{root}] belongs to {owner}, but this process uses the session records of "
            f"[{self.records_id()}] and would treat the sessions in the root as orphans. Start Lodge with the session "
            "records of the root (--records, --namespace, --instance), or use another directory. If the session "
            f"records of the root no longer exist, remove {files}. Lodge then deletes the sessions in the root."
        )

    def expected(self, root: str) -> str | None:
        """Return the expected id of a root, or None if any id is accepted.

        Raises:
            RootUnavailableError: If the registry cannot answer.
        """
        seen = self._seen.get(root)
        if seen is not None or self._root_ids is None:
            return seen
        try:
            return self._root_ids.expected(root)
        except RecordsUnavailableError as error:
            raise RootUnavailableError(f"The recorded id of the root [{root}] cannot be read: {error}") from error

    def check(self, root: str, found: str | None, *, has_records: bool = False) -> None:
        """Check the id that was found in a root.

        Args:
            root: The root.
            found: Its id. None if it has none.
            has_records: Whether the root contains the session records of this process.

        Raises:
            RootUnavailableError: If the root does not have the expected id.
        """
        expected = self.expected(root)
        if found is None or (expected is not None and found != expected):
            reason = (
                "it has no id, so it may be an empty file system that is mounted in its place"
                if found is None
                else f"its id is [{found}], but [{expected}] is expected"
            )
            error = HomeReplacedError if has_records and found is not None else RootUnavailableError
            raise error(
                f"The root [{root}] does not contain the storage that Lodge used before: {reason}. Mount or restore "
                "the original storage."
            )
        self._seen.setdefault(root, found)

    def establish(self, root: str, found: str | None) -> None:
        """Check the id that was found in a root, and record it.

        Raises:
            RootUnavailableError: If the root does not have the expected id, or the id cannot be recorded.
        """
        self.check(root, found)
        if found is None:
            return
        recorded = self.record(root, found)
        if recorded != found:
            self._seen[root] = recorded
            self.check(root, found)

    def record(self, root: str, root_id: str) -> str:
        """Record the id of a root before the id is written to the root.

        Returns:
            The id to write to the root. It may be an id that another process recorded first.

        Raises:
            RootUnavailableError: If the registry cannot answer.
        """
        if self._root_ids is None:
            return root_id
        try:
            return self._root_ids.record(root, root_id)
        except RecordsUnavailableError as error:
            raise RootUnavailableError(f"The id of the root [{root}] cannot be recorded: {error}") from error
