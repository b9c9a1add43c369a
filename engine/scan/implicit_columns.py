"""Implicit and partition columns: what a scan knows of a row because of the file it comes from.

``fqn``, ``filepath``, ``filename`` and ``suffix`` tell the file; ``dir0``, ``dir1`` … the directories between what
was selected and the file. They are no columns of the table: each is there if the query names it, and a wildcard
brings the partition columns along, after the table's columns (seed 002, "Implicit Columns"; seed 004).

Guarantees:

1. Values are text, and name a file by its path in the workspace, never by a path of the machine.
2. All files of a scan have the same partition columns: as many as the deepest file has directories; a file that
   lies less deep has nulls in the others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Self

import pyarrow as pa

from engine.errors import ProjectionError
from engine.scan_source import IMPLICIT_NAME
from engine.schema import fold_case

_FILE_COLUMNS: Mapping[str, Callable[[PurePosixPath], str]] = MappingProxyType(
    {
        "fqn": str,
        "filepath": lambda path: str(path.parent),
        "filename": lambda path: path.name,
        "suffix": lambda path: path.suffix.removeprefix("."),
    }
)


def implicit_field(name: str) -> pa.Field | None:
    """The column of that name in any letter case, spelled as the query spells it; None if it is none of these."""
    known = IMPLICIT_NAME.fullmatch(name)
    return None if known is None else pa.field(name, pa.string(), nullable=known["directory"] is not None)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Where a file lies, seen from what was selected.

    Attributes:
        path: Of the file, from the workspace's root: ``/a/b/c.csv``.
        directories: Between the selected directory and the file.
    """

    path: PurePosixPath
    directories: Sequence[str]

    @classmethod
    def of(cls, path: str, selected: str) -> Self:
        """Both paths are relative to the workspace; ``selected`` is the file itself or a directory above it.

        Raises:
            ProjectionError: The file is not below what was selected.
        """
        file, root = PurePosixPath(path), PurePosixPath(selected)
        if file.is_absolute() or ".." in file.parts or not file.is_relative_to(root):
            raise ProjectionError(f"File {path!r} does not lie below {selected!r}, so it has no partition columns.")
        return cls(PurePosixPath("/") / file, file.relative_to(root).parts[:-1])

    def value(self, name: str) -> str | None:
        """The value of an implicit column, named in any letter case."""
        known = IMPLICIT_NAME.fullmatch(name)
        if known is not None and known["directory"] is not None:
            index = int(known["directory"])
            return self.directories[index] if index < len(self.directories) else None
        return _FILE_COLUMNS[fold_case(name)](self.path)

    def column(self, field: pa.Field, rows: int) -> pa.Array:
        """The implicit column for that many rows of the file."""
        return pa.repeat(pa.scalar(self.value(field.name), field.type), rows)


def partition_fields(locations: Iterable[FileLocation]) -> Sequence[pa.Field]:
    """What a wildcard brings along: see guarantee 2."""
    depth = max((len(location.directories) for location in locations), default=0)
    return [pa.field(f"dir{index}", pa.string()) for index in range(depth)]
