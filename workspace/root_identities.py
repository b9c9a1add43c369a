"""Whether a root is the one that it was, and belongs to the session records that are asked.

Why it exists: a file system that is not mounted looks like an empty directory, and so does an empty bucket. And what no
record names is an orphan: who asks other records than those of the sessions in a root would take all of them for
orphans. So each root has a random id, and says whose records name what lives in it. They are judged here,
for roots in file systems (:mod:`workspace.files.roots`) and in object stores alike. Where
session records are not on the roots' own storage, nor are the ids (:class:`RootIds`).
"""

import errno
from collections.abc import Sequence
from typing import Protocol

from workspace.records import RecordsUnavailableError
from workspace.storage_paths import OWN_DIRECTORY

FILES = "files"
"""What a root says whose session records are files in its home."""


class RootError(OSError):
    """Base of what is wrong with a root; the message says what to do::

    RootError
    ├── RootUnavailableError  a root is not there, or something else is in its place
    ├── RootTakenError        a root belongs to another home, or to other session records
    └── HomeMovedError        what was a home has become part of another one
    """

    def __init__(self, message: str) -> None:
        super().__init__(errno.EIO, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class RootUnavailableError(RootError):
    pass


class RootTakenError(RootError):
    pass


class HomeMovedError(RootError):
    pass


class RootIds(Protocol):
    """Where the ids of roots are recorded, beside the session records, if that is not on the roots' own storage."""

    def records_id(self) -> str:
        """What roots say whose sessions these records name: always the same, and unlike that of any other records.

        Raises: RecordsUnavailableError
        """
        ...

    def expected(self, root: str) -> str | None:
        """The id of a root; None if it was never recorded. Raises: RecordsUnavailableError"""
        ...

    def record(self, root: str, root_id: str) -> str:
        """Records the id of a root, unless there is one. Returns: The one that is recorded now.

        Raises: RecordsUnavailableError
        """
        ...


class RootIdentities:
    """Which id each root must have: the one that this process saw first, which was the recorded one, if any was. And to
    whose records they must belong.

    Args:
        root_ids: Where ids are recorded; None if they are on the roots' own storage only.
    """

    def __init__(self, root_ids: RootIds | None) -> None:
        self._root_ids = root_ids
        self._seen: dict[str, str] = {}
        self._records_id = FILES if root_ids is None else None

    @property
    def are_recorded(self) -> bool:
        return self._root_ids is not None

    def records_id(self) -> str:
        """Whose records this process asks. Raises: RootUnavailableError"""
        if self._records_id is None and self._root_ids is not None:
            try:
                self._records_id = self._root_ids.records_id()
            except RecordsUnavailableError as error:
                raise RootUnavailableError(f"Whose session records these are cannot be found out: {error}") from error
        return self._records_id or FILES

    def check_records(self, root: str, found: str | None) -> None:
        """Raises: RootTakenError if what a root says is that it belongs to other records."""
        if found is not None and found != self.records_id():
            raise self.taken(root, f"the session records of [{found}]", ["records"])

    def taken(self, root: str, whose: str, said_in: Sequence[str] = ()) -> RootTakenError:
        """That a root belongs to other records, and how to part it from them."""
        names = said_in if self.are_recorded and self.expected(root) is not None else [*said_in, "root"]
        files = " and ".join(f"[{root}/{OWN_DIRECTORY}/{name}]" for name in names)
        return RootTakenError(
            f"[{root}] belongs to {whose}, not to those of [{self.records_id()}], which would take what lives there "
            "for orphans. Start with its own records (--records, --namespace, --instance), or use another directory. "
            f"If its own are gone for good, remove {files}: what lives there is deleted then."
        )

    def expected(self, root: str) -> str | None:
        """The id that a root must have; None if any will do. Raises: RootUnavailableError"""
        seen = self._seen.get(root)
        if seen is not None or self._root_ids is None:
            return seen
        try:
            return self._root_ids.expected(root)
        except RecordsUnavailableError as error:
            raise RootUnavailableError(
                f"Whether [{root}] is the storage that it was cannot be found out: {error}"
            ) from error

    def check(self, root: str, found: str | None) -> None:
        """Raises: RootUnavailableError if what was found in a root is not its id."""
        expected = self.expected(root)
        if found is None:
            raise RootUnavailableError(
                f"[{root}] is not the storage that it was: it has no id, as an empty file system has none. "
                "Bring the right storage back."
            )
        if expected is not None and found != expected:
            raise RootUnavailableError(
                f"[{root}] is not the storage that it was: its id is [{found}], not [{expected}]. "
                "Bring the right storage back."
            )
        self._seen.setdefault(root, found)

    def establish(self, root: str, found: str | None) -> None:
        """Checks the id of a root, and records it. Raises: RootUnavailableError"""
        self.check(root, found)
        if found is None:
            return
        recorded = self.recorded(root, found)
        if recorded != found:
            self._seen[root] = recorded
            self.check(root, found)

    def recorded(self, root: str, root_id: str) -> str:
        """Records the id of a root before the root has it. Returns: The one that it shall have.

        Raises: RootUnavailableError
        """
        if self._root_ids is None:
            return root_id
        try:
            return self._root_ids.record(root, root_id)
        except RecordsUnavailableError as error:
            raise RootUnavailableError(f"The id of [{root}] cannot be recorded: {error}") from error
