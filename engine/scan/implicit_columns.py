"""Implicit columns and partition columns, which a scan derives from the path of a file.

``fqn``, ``filepath``, ``filename`` and ``suffix`` describe the file. ``dir0``, ``dir1`` and so on are the directories
between the selected directory and the file. These columns are not part of the table. A query gets the implicit columns
that it selects by name. A wildcard also adds the partition columns after the table's columns
[scan-schema-tracker "Implicit Columns"].

Guarantees:

1. The values are text. They contain only the path of a file in the workspace, never a path of the machine.
2. All files of a scan have the same partition columns. Their number is the number of directories of the deepest file.
   For files with fewer directories, the remaining columns are null.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Self

import pyarrow as pa

from engine.arrow_types import text_array
from engine.errors import ProjectionError, ValueConversionError
from engine.scan.partition_columns import convert_value, partition_pairs
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
    """Return the implicit column with a name. Case is ignored.

    Return None if there is no implicit column with this name.
    """
    match = IMPLICIT_NAME.fullmatch(name)
    return None if match is None else pa.field(name, pa.string(), nullable=match["directory"] is not None)


@dataclass(frozen=True, slots=True)
class FileLocation:
    """Location of a file, relative to the selected file or directory.

    Attributes:
        path: The path of the file from the workspace's root, such as ``/a/b/c.csv``.
        directories: The directories between the selected directory and the file.
    """

    path: str
    directories: Sequence[str]

    @classmethod
    def of(cls, path: str, selected: str) -> Self:
        """Create the location of a file.

        Args:
            path: The path of the file, relative to the workspace.
            selected: The selected path, which is either the file itself or a directory above it.

        Raises:
            ProjectionError: If the file is not below the selected path.
        """
        parts, root = _parts(path), _selected_parts(selected)
        is_below = not path.startswith("/") and not selected.startswith("/") and parts[: len(root)] == root
        if not is_below or ".." in parts:
            raise ProjectionError(f"File {path!r} is not below {selected!r}, so it has no partition columns.")
        return cls(f"/{'/'.join(parts)}", parts[len(root) : -1])

    def value(self, name: str) -> str | None:
        """Return the value of an implicit column. Case is ignored in its name."""
        match = IMPLICIT_NAME.fullmatch(name)
        if match is not None and match["directory"] is not None:
            index = int(match["directory"])
            return self.directories[index] if index < len(self.directories) else None
        return _FILE_COLUMNS[fold_case(name)](PurePosixPath(self.path))

    def scalar(self, field: pa.Field) -> pa.Scalar:
        """Return the value of an implicit column or of a partition column, with the type of the column.

        Raises:
            ValueConversionError: If the value does not match the type that a user has declared.
        """
        if IMPLICIT_NAME.fullmatch(field.name):
            value = self.value(field.name)
            return pa.nulls(1, field.type)[0] if value is None else text_array(value)[0]
        name = fold_case(field.name)
        text = next((value for key, value in partition_pairs(self.directories) if fold_case(key) == name), None)
        try:
            return convert_value(text, field.type)
        except ValueError:
            raise ValueConversionError(field.name, text, field.type) from None

    def column(self, field: pa.Field, rows: int) -> pa.Array:
        """Return the array of an implicit column or of a partition column for the given number of rows."""
        return pa.repeat(self.scalar(field), rows)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))


_selected_parts = lru_cache(16)(_parts)


def partition_fields(locations: Iterable[FileLocation]) -> Sequence[pa.Field]:
    """Return the partition columns that a wildcard adds. See guarantee 2."""
    depth = max((len(location.directories) for location in locations), default=0)
    return [pa.field(f"dir{index}", pa.string()) for index in range(depth)]
