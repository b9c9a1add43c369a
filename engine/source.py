"""What a scan reads: the words between the gateway, which asks for a scan, and the executors, which run it.

The gateway imports this module, so it needs neither Spark nor Arrow. A :class:`ScanSource` travels as options
of Spark's data source ``FORMAT``.

Guarantees:

1. ``ScanSource.from_options(source.to_options()) == source``, also when Spark changes the letter case of the
   keys.
2. ``has_reader`` and the scan itself decide by one table, so a path that the gateway accepts for its suffix
   never fails for it later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Self

from engine.errors import ScanOptionError

FORMAT = "lodge"
"""The name of the data source in Spark."""

TEXT_SCHEMA = "columns array<string>"
"""The schema of a scan of text files without header, as Spark DDL (seed 004, the "generic" selection)."""

TEXT_DELIMITERS: Mapping[str, str] = MappingProxyType({".csv": ",", ".tsv": "\t", ".psv": "|", ".tbl": "|"})
"""Text files by suffix, and what stands between their fields. ``.txt`` is missing: it names no delimiter."""

SUPPORTED_SUFFIXES: tuple[str, ...] = tuple(TEXT_DELIMITERS)
"""The suffixes that have a reader, for messages."""


def suffix_of(path: str) -> str:
    """The suffix that chooses the reader: the last one of the name, in lower case; empty if there is none."""
    return PurePosixPath(path).suffix.lower()


def has_reader(path: str) -> bool:
    """Whether a file of this name can be scanned. Says nothing about directories, which need no suffix."""
    return suffix_of(path) in TEXT_DELIMITERS


@dataclass(frozen=True, slots=True)
class ScanSource:
    """One file or directory of a workspace, to be scanned.

    Attributes:
        workspace: The workspace's name, such as ``dfs``, for messages.
        root: The workspace's directory, absolute; the same on the driver and on every executor.
        path: The file or directory, relative to ``root``; ``.`` is the root itself.
        excluded: An absolute directory that no scan may read, whatever leads there, or None. Walking a
            directory leaves it out; naming it is an error.

    Raises:
        ScanOptionError: ``root`` or ``excluded`` is not absolute.
    """

    workspace: str
    root: str
    path: str
    excluded: str | None

    def __post_init__(self) -> None:
        for option, directory in (("root", self.root), ("excluded", self.excluded)):
            if directory is not None and not PurePosixPath(directory).is_absolute():
                raise ScanOptionError(option, "must be an absolute directory")

    def to_options(self) -> dict[str, str]:
        """As options of the data source."""
        options = {"workspace": self.workspace, "root": self.root, "path": self.path}
        if self.excluded is not None:
            options["excluded"] = self.excluded
        return options

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """From options of the data source, whatever the letter case of their keys; other options are ignored.

        Raises:
            ScanOptionError: A required option is missing, or the source is not valid.
        """
        given = {key.lower(): value for key, value in options.items()}
        for option in ("workspace", "root", "path"):
            if option not in given:
                raise ScanOptionError(
                    option, f"is missing; format {FORMAT!r} needs the options 'workspace', 'root' and 'path'"
                )
        return cls(given["workspace"], given["root"], given["path"], given.get("excluded"))
