"""The columns of the path of files that Spark's own reader reads.

Guarantees:

1. Implicit columns, such as ``filename`` and ``dir0``, are expressions of Spark's column ``_metadata.file_path``. They
   have the values of :mod:`engine.scan.implicit_columns`, and contain no path of the machine.
2. Partition columns are read by Spark from the names of the directories ``key=value``. Spark does so only if it finds
   the same values as the engine: for all files that Spark reads, each directory below the selected one has such a name,
   the keys are the same, and the types are ``int``, ``bigint``, ``date`` or ``string``.
3. Spark excludes files by filters on these columns before it starts tasks.

Source: [spark-partitioning].
"""

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from engine.file_scan.file_scan import FileScan
from engine.scan.implicit_columns import FileLocation
from engine.scan.partition_columns import partition_pairs
from engine.scan_source import IMPLICIT_NAME, selected_directory
from engine.schema import fold_case, is_implicit
from engine.storage.listed_file import ListedFile
from gateway.scans.expressions import Expression, attribute, call, int_literal, text_literal
from gateway.sql.name_syntax import quote_name

_FILE_PATH: Final = "_metadata.file_path"
_FILE_NAME: Final = "_metadata.file_name"
_SCHEME: Final = "file:"
_MOST_DIRECTORIES: Final = 4096
"""The length of the longest path of Linux, which has fewer directories."""

_PARTITION: Final = re.compile(r"[A-Za-z][0-9A-Za-z_-]*=[^=]+")
_PARTITION_TYPES: Final = (pa.int32(), pa.int64(), pa.date32(), pa.string())


@dataclass(frozen=True, slots=True)
class PathColumns:
    """The columns of the path in one scan.

    Attributes:
        root: The real path of the workspace.
        directory: The real path of the selected directory.
        suffix: The suffix of all files that Spark reads.
        has_partitions: Whether the statement needs partition columns.
    """

    root: str
    directory: str
    suffix: str
    has_partitions: bool

    @classmethod
    def of(cls, scan: FileScan, root: str, suffix: str, columns: Sequence[pa.Field]) -> Self:
        """Return the columns of the path.

        Args:
            scan: The scan.
            root: The real path of the workspace.
            suffix: The suffix of all files that Spark reads.
            columns: The columns of the path that the statement needs.
        """
        directory = posixpath.normpath(posixpath.join(root, selected_directory(scan.source.path)))
        return cls(root, directory, suffix, any(not _is_implicit_name(one) for one in columns))

    def path(self, file: ListedFile) -> str:
        """Return the path of a file as Spark gets it."""
        return f"{_SCHEME}{self.root}/{file.path}"

    @property
    def options(self) -> dict[str, str]:
        """The options with which Spark's reader adds partition columns, or adds none."""
        return {"basePath": _SCHEME + self.directory} if self.has_partitions else {"recursiveFileLookup": "true"}

    @staticmethod
    def is_read(column: pa.Field) -> bool:
        """Return whether Spark's reader returns a column. Other columns are expressions."""
        return not (is_implicit(column) and _is_implicit_name(column))

    def in_workspace(self) -> Expression:
        """Return the path of a file, relative to the workspace."""
        return _from(len(f"{_SCHEME}{self.root}/"))

    def expression(self, column: pa.Field) -> Expression:
        """Return the value of a column of the path. Null if a file has no such value."""
        if _is_implicit_name(column):
            return call("nullif", self._text(column), text_literal(""))
        return attribute(quote_name(column.name))

    def _text(self, column: pa.Field) -> Expression:
        """Return the value of an implicit column. Empty if a file has no such value."""
        name = fold_case(column.name)
        found = IMPLICIT_NAME.fullmatch(name)
        if found is not None and found["directory"] is not None:
            below = _directories(len(f"{_SCHEME}{self.directory}/"))
            number = min(int(found["directory"]), _MOST_DIRECTORIES) + 1
            return call("split_part", below, text_literal("/"), int_literal(number))
        return {
            "fqn": _from(len(f"{_SCHEME}{self.root}")),
            "filepath": call("concat", text_literal("/"), _directories(len(f"{_SCHEME}{self.root}/"))),
            "filename": attribute(_FILE_NAME),
            "suffix": text_literal(self.suffix),
        }[name]


def has_same_path_columns(scan: FileScan, files: Sequence[ListedFile], columns: Sequence[pa.Field]) -> bool:
    """Return whether Spark finds the same columns of the path as the engine.

    Args:
        scan: The scan.
        files: The files that Spark reads. Their paths contain no characters that are escaped.
        columns: The columns of the path that the statement needs.
    """
    partitions = [one for one in columns if not _is_implicit_name(one)]
    if not partitions:
        return True
    selected = selected_directory(scan.source.path)
    directories = {tuple(FileLocation.of(file.path, selected).directories) for file in files}
    if not all(_PARTITION.fullmatch(name) for names in directories for name in names):
        return False
    keys = {tuple(name.partition("=")[0] for name in names) for names in directories}
    if len(keys) != 1:
        return False
    (of_all,) = keys
    has_values = all(len(partition_pairs(names)) == len(names) for names in directories)
    return has_values and all(one.name in of_all and one.type in _PARTITION_TYPES for one in partitions)


def _is_implicit_name(column: pa.Field) -> bool:
    return IMPLICIT_NAME.fullmatch(column.name) is not None


def _from(prefix_length: int) -> Expression:
    """Return the path of a file without a prefix of a number of characters."""
    return call("substring", attribute(_FILE_PATH), int_literal(prefix_length + 1))


def _directories(prefix_length: int) -> Expression:
    """Return the directory of a file without a prefix of a number of characters."""
    others = call("+", call("length", attribute(_FILE_NAME)), int_literal(prefix_length + 1))
    length = call("-", call("length", attribute(_FILE_PATH)), others)
    return call("substring", attribute(_FILE_PATH), int_literal(prefix_length + 1), length)
