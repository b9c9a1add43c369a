"""A file in a listing."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a scan, as it was when it was listed.

    Attributes:
        path: The path of the file, relative to the workspace's root.
        size_bytes: The size of the file.
        version: A text that changes when the contents of the file change. Its form depends on the storage: for a local
            file, it is the modification time in nanoseconds.
        is_settled: Whether any later change of the contents changes the version. False for a local file that was
            modified so recently that another change could have the same modification time.
    """

    path: str
    size_bytes: int
    version: str
    is_settled: bool = field(default=True, compare=False)
