"""What a scan reads: the words between the gateway, which asks for a scan, and the executors, which run it.

The gateway imports this module, so it needs neither Spark nor Arrow. A :class:`ScanSource` travels as options
of Spark's data source ``FORMAT``.

Guarantees:

1. ``ScanSource.from_options(source.to_options()) == source``, also when Spark changes the letter case of the
   keys.
2. ``has_reader`` and the scan itself decide by one table, so a path that the gateway accepts for its suffix
   never fails for it later.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from itertools import chain
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Self

from engine.errors import ScanOptionError
from engine.path_patterns import fixed_directory, is_pattern
from engine.suffixes import SUFFIXES, TEXT_DELIMITERS, suffix_of

FORMAT = "lodge"
"""The name of the data source in Spark."""

SOURCE_OPTIONS = frozenset({"workspace", "root", "path", "excluded", "mentioned"})
"""The options that say what a scan reads; all others say how."""

TEXT_SCHEMA = "columns array<string>"
"""The schema of a scan of text files without header, as Spark DDL (seed 004, the "generic" selection)."""

IMPLICIT_NAME = re.compile(r"fqn|filepath|filename|suffix|dir(?P<directory>0|[1-9]\d*)", re.IGNORECASE)
"""Names of columns that a scan makes itself: see :mod:`engine.scan.implicit_columns`."""

READER_GROUP = "lodge.readers"
"""Entry points of this group are formats that other packages bring. One whose name begins with a dot is found by that
suffix, any other by the option ``format``."""


@cache
def supported_suffixes() -> Sequence[str]:
    """The suffixes that have a reader, of Lodge's own formats and of those that other packages bring.

    Packages are looked through once a process, because that takes milliseconds.
    """
    brought = (name.lower() for name in entry_points(group=READER_GROUP).names if name.startswith("."))
    return sorted({*chain.from_iterable(SUFFIXES.values()), *brought})


def has_reader(path: str) -> bool:
    """Whether a file of this name can be scanned. Says nothing about directories, which need no suffix."""
    return suffix_of(path) in supported_suffixes()


def selected_directory(path: str) -> str:
    """What a scan's path selects from: of a pattern, the directory that it begins with; else the path."""
    return str(fixed_directory(path)) if is_pattern(path) else path


def known_schema(path: str, options: Mapping[str, str], mentioned: frozenset[str] | None) -> str | None:
    """The schema of a scan of a file that needs no look into it, as Spark DDL; None if it needs one."""
    if suffix_of(path) not in TEXT_DELIMITERS or is_pattern(path) or "format" in options:
        return None
    if options.get("header", "false").lower() not in ("false", "0", "no", "f", "n"):
        return None
    if mentioned is None:
        return TEXT_SCHEMA
    has_implicit = any(IMPLICIT_NAME.fullmatch(name) for name in mentioned)
    return TEXT_SCHEMA if "columns" in mentioned and not has_implicit else None


@dataclass(frozen=True, slots=True)
class ScanSource:
    """One file or directory of a workspace, to be scanned.

    Attributes:
        workspace: The workspace's name, such as ``dfs``, for messages.
        root: The workspace's directory, absolute; the same on the driver and on every executor.
        path: The file or directory, relative to ``root``; ``.`` is the root itself.
        excluded: Absolute directories that no scan may read, whatever leads there. Walking a directory leaves them
            out; naming one is an error. If one is the root itself, a scan may read what its path names in it, and no
            link leads from there to something else in it.

    Raises:
        ScanOptionError: ``root``, or one of ``excluded``, is not absolute.
    """

    workspace: str
    root: str
    path: str
    excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, directory in (("root", self.root), *(("excluded", each) for each in self.excluded)):
            if not PurePosixPath(directory).is_absolute():
                raise ScanOptionError(option, "must be an absolute directory")

    def to_options(
        self, *, reader: Mapping[str, str] = MappingProxyType({}), mentioned: frozenset[str] | None = None
    ) -> dict[str, str]:
        """As options of the data source.

        Args:
            reader: The options of the scan and of its reader, as a user gives them.
            mentioned: Names, case folded, that the statement mentions: no other column is needed. None for all.

        Raises:
            ScanOptionError: One of the reader's options has the name of one that only the gateway gives.
        """
        options = {"workspace": self.workspace, "root": self.root, "path": self.path}
        if self.excluded:
            options["excluded"] = json.dumps(self.excluded)
        if mentioned is not None:
            options["mentioned"] = json.dumps(sorted(mentioned))
        for option in reader:
            if option.lower() in SOURCE_OPTIONS:
                raise ScanOptionError(option, "cannot be given for a path of a workspace")
        return {**reader, **options}

    @staticmethod
    def mentioned_in(options: Mapping[str, str]) -> frozenset[str] | None:
        """The names that :meth:`to_options` was given.

        Raises:
            ScanOptionError: The option is no JSON array.
        """
        given = {key.lower(): value for key, value in options.items()}
        return frozenset(_array(given, "mentioned")) if "mentioned" in given else None

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
        excluded = _array(given, "excluded") if "excluded" in given else ()
        return cls(given["workspace"], given["root"], given["path"], tuple(excluded))


def _array(options: Mapping[str, str], option: str) -> Sequence[str]:
    try:
        return [str(name) for name in json.loads(options[option])]
    except (ValueError, TypeError):
        raise ScanOptionError(option, "must be a JSON array of texts") from None
