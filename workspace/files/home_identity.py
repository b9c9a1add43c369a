"""Checks that the storage of session records and leases is still the storage that this process found first.

If another file system is mounted in place of a home, all records look deleted and all leases look lost. New records and
leases would be written to the wrong storage. Therefore, each access to records and leases is checked.

Guarantees:

1. The result of an access counts only if the home had the id that this process found first, both before and after the
   access. Otherwise, the access fails, also if it has found that a record does not exist.
2. Nothing is changed in a home that has another id, or no id, before the access.

Not guaranteed:

- An access during which the storage is replaced and restored, so that both checks find the true storage.
- An older copy of the true storage, for example a snapshot, has the same id and is not noticed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from workspace.files.layout import Layout
from workspace.root_identities import RootIdentities


class HomeIdentity:
    """The id of a home, which must not change while this process runs.

    Args:
        layout: The paths of the home.
        root_id: The id of the home. None means the id that is found first.
    """

    def __init__(self, layout: Layout, root_id: str | None = None) -> None:
        self._layout = layout
        self._identities = RootIdentities(None, {} if root_id is None else {str(layout.root): root_id})

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Check the home before and after the block.

        Raises:
            RootUnavailableError: If the home has another id (HomeReplacedError), or no id.
            OSError: If the id cannot be read.
        """
        self._check()
        try:
            yield
        finally:
            self._check()

    def _check(self) -> None:
        self._identities.check(str(self._layout.root), read_root_id(self._layout), has_records=True)


def read_root_id(layout: Layout) -> str | None:
    """Return the id that a root contains. None if it has none.

    Raises:
        OSError: If the id cannot be read.
    """
    root_id = layout.read(layout.marker)
    return None if root_id is None else root_id.decode("ascii", "replace")
