"""The identity of a root: its id, and whose session records name its contents.

Two mistakes would make the reaper delete live sessions:

- A file system that is not mounted looks like an empty directory; so does an empty bucket.
- A location that no record names is an orphan. Someone who asks the wrong records would take every location for one.

So each root has a random id, and says whose records name its contents. This module checks both, for roots on file
systems (:mod:`workspace.files.roots`) and in object stores alike. If the session records are stored elsewhere than the
roots, so are the ids; see :class:`RootIds`.
"""

import errno
from collections.abc import Sequence
from typing import Protocol

from workspace.record_store import RecordsUnavailableError
from workspace.storage_paths import OWN_DIRECTORY

FILES = "files"
"""What a root says whose session records are files in its home."""


class RootError(OSError):
    """The base class of the errors of a root; the message says what to do.

    ::

        RootError
        ├── RootUnavailableError  a root is missing, or something else is in its place
        ├── RootTakenError        a root belongs to another home, or to other session records
        └── HomeMovedError        a home has become part of another home
    """

    def __init__(self, message: str) -> None:
        super().__init__(errno.EIO, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class RootUnavailableError(RootError):
    """A root is missing, or something else is in its place."""


class RootTakenError(RootError):
    """A root belongs to another home, or to other session records."""


class HomeMovedError(RootError):
    """A home has become part of another home."""


class RootIds(Protocol):
    """A registry of root ids, for records that are stored elsewhere than roots.

    Every method raises RecordsUnavailableError if the registry cannot answer.
    """

    def records_id(self) -> str:
        """Return the id of these session records.

        It is always the same, and unlike that of any other records.
        """
        ...

    def expected(self, root: str) -> str | None:
        """Return the id of a root; None if it was never recorded."""
        ...

    def record(self, root: str, root_id: str) -> str:
        """Record the id of a root unless there is one, and return the recorded one."""
        ...


class RootIdentities:
    """The identity that each root must have.

    The expected id is the one that this process saw first, which was the recorded one, if there was one.

    Args:
        root_ids: The registry of ids; None if the ids are stored only in the roots.
    """

    def __init__(self, root_ids: RootIds | None) -> None:
        self._root_ids = root_ids
        self._seen: dict[str, str] = {}
        self._records_id = FILES if root_ids is None else None

    @property
    def are_recorded(self) -> bool:
        """Whether there is a registry of ids."""
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
        """Check the session records that a root names.

        Raises:
            RootTakenError: If the root belongs to other records.
        """
        if found is not None and found != self.records_id():
            raise self.taken_error(root, f"the session records of [{found}]", ["records"])

    def taken_error(self, root: str, owner: str, said_in: Sequence[str] = ()) -> RootTakenError:
        """Return the error for a root that belongs to other records.

        Its message says how to release the root.
        """
        names = said_in if self.are_recorded and self.expected(root) is not None else [*said_in, "root"]
        files = " and ".join(f"[{root}/{OWN_DIRECTORY}/{name}]" for name in names)
        return RootTakenError(
            f"[{root}] belongs to {owner}, not to those of [{self.records_id()}], which would treat its sessions as "
            "orphans. Start with the records of the root (--records, --namespace, --instance), or use another "
            f"directory. If its records are gone for good, remove {files}: Lodge then deletes the sessions in it."
        )

    def expected(self, root: str) -> str | None:
        """Return the id that a root must have; None if any id is valid.

        Raises:
            RootUnavailableError: If the registry cannot answer.
        """
        seen = self._seen.get(root)
        if seen is not None or self._root_ids is None:
            return seen
        try:
            return self._root_ids.expected(root)
        except RecordsUnavailableError as error:
            raise RootUnavailableError(f"The recorded id of [{root}] cannot be read: {error}") from error

    def check(self, root: str, found: str | None) -> None:
        """Check the id that a root has.

        Raises:
            RootUnavailableError: If it is not the expected one.
        """
        expected = self.expected(root)
        if found is None or found != (expected or found):
            reason = (
                "it has no id, like an empty file system" if found is None else f"its id is [{found}], not [{expected}]"
            )
            raise RootUnavailableError(
                f"[{root}] is not the storage that it was: {reason}. Bring the right storage back."
            )
        self._seen.setdefault(root, found)

    def establish(self, root: str, found: str | None) -> None:
        """Check the id that a root has, and record it.

        Raises:
            RootUnavailableError: If it is not the expected one, or cannot be recorded.
        """
        self.check(root, found)
        if found is None:
            return
        recorded = self.record(root, found)
        if recorded != found:
            self._seen[root] = recorded
            self.check(root, found)

    def record(self, root: str, root_id: str) -> str:
        """Record the id of a root before it is written to the root.

        Returns:
            The id to write, which another process may have recorded first.

        Raises:
            RootUnavailableError: If the registry cannot answer.
        """
        if self._root_ids is None:
            return root_id
        try:
            return self._root_ids.record(root, root_id)
        except RecordsUnavailableError as error:
            raise RootUnavailableError(f"The id of [{root}] cannot be recorded: {error}") from error
