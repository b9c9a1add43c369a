"""The walk through a directory of an object store or HDFS.

A recursive listing needs one request for 1,000 names, but it is complete before its number of names is known, so its
memory has no limit. A listing of each directory separately can stop at any number, but needs a request for each
directory. Therefore a walk looks before it lists:

1. It lists the directory itself.
2. If there are more than ``_SAMPLES`` directories in it, it walks through ``_SAMPLES`` of them first.
3. If all of them are likely to have at most ``max_files`` names together, it lists the directory recursively.
   Otherwise, it walks through the other directories, until it has found too many files.

So a tree of partitions of depth ``d`` needs about ``2 ** (d + 1)`` requests, and one for each 1,000 names.

Guarantee: each file is found once. Hidden names are ignored, and their directories as well
(:mod:`engine.storage.file_names`).

Not guaranteed:

- pyarrow cannot list a part of a directory. Therefore the memory depends on the largest single directory, and on
  directories that are much larger than the samples beside them.
- Directories in Google Cloud Storage are listed recursively at once, because pyarrow does not return all of them there.
"""

from collections.abc import Callable, Sequence

from pyarrow import fs

from engine.storage.file_names import is_hidden, may_mark_table

ListDirectory = Callable[[str, bool], Sequence[fs.FileInfo]]
"""A function that lists a directory, recursively or not."""

_SAMPLES = 2


class RemoteWalk:
    """A walk that finds the files below a directory.

    Args:
        list_directory: Lists a directory.
        split_name: Returns the names of a path below the directory. Raises an error if it is not a valid path.
        require_few: Called with the number of files so far. Raises an error if there are too many.
        max_files: The maximum number of files.
        note_mark: Called with the names of each path that can mark a table of another format.

    Attributes:
        files: The files, each with its names.
    """

    def __init__(
        self,
        list_directory: ListDirectory,
        split_name: Callable[[fs.FileInfo], Sequence[str]],
        require_few: Callable[[int], None],
        max_files: int,
        note_mark: Callable[[Sequence[str]], None],
    ) -> None:
        self._list_directory = list_directory
        self._split_name = split_name
        self._require_few = require_few
        self._max_files = max_files
        self._note_mark = note_mark
        self._seen = 0
        self.files: list[tuple[Sequence[str], fs.FileInfo]] = []

    def run(self, directory: str) -> None:
        """Find the files below a directory."""
        begin = len(self.files)
        below = self.list(directory, is_recursive=False)
        sampled = {below[number * len(below) // _SAMPLES] for number in range(_SAMPLES)} if below else set()
        before = self._seen
        for each in sorted(sampled):
            self.run(each)
        rest = [each for each in below if each not in sampled]
        if rest and (self._seen - before + len(sampled)) * len(below) <= self._max_files * len(sampled):
            del self.files[begin:]
            self.list(directory, is_recursive=True)
            return
        for each in rest:
            self.run(each)

    def list(self, directory: str, *, is_recursive: bool) -> Sequence[str]:
        """Add the files of a directory. Return the directories in it."""
        below = []
        for info in self._list_directory(directory, is_recursive):
            self._seen += 1
            names = self._split_name(info)
            if any(map(may_mark_table, names)):
                self._note_mark(names)
            if any(map(is_hidden, names)):
                continue
            if info.type == fs.FileType.File:
                self.files.append((names, info))
            elif info.type == fs.FileType.Directory and names:
                below.append(info.path.rstrip("/"))
        self._require_few(len(self.files))
        return below
