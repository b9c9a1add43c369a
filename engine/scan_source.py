"""The source of a scan: the data that the gateway passes to the executors.

A :class:`ScanSource` is passed as options of Spark's data source ``FORMAT``. This module does not import Spark or
Arrow, because the gateway imports it.

Guarantees:

1. ``ScanSource.from_options(source.to_options()) == source``, even if Spark changes the case of the keys.
2. ``has_reader`` and the scan use the same table of suffixes. If the gateway has accepted the suffix of a path, the
   scan does not reject it.
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
from engine.json_texts import MAX_JSON_CHARACTERS, read_json
from engine.path_patterns import fixed_directory, is_pattern
from engine.scan_signature import SIGNATURE
from engine.suffixes import SUFFIXES, TEXT_DELIMITERS, suffix_of

FORMAT = "lodge"
"""The name of the data source in Spark."""

SOURCE_OPTIONS = frozenset(
    {
        "workspace",
        "root",
        "path",
        "excluded",
        "mentioned",
        "files",
        "planned",
        "task",
        "conflict_column",
        "conflict_others",
        "engine",
        "single_use",
        SIGNATURE,
    }
)
"""The options that only a gateway may set. All other options configure how the files are read."""

PLANNED = "planned"
"""The option that says that the gateway discovered the schema of the scan. Otherwise, a user declared it."""

SINGLE_USE = "single_use"
"""The option that says that only one place of one statement uses the scan. Its value differs for each statement.

Spark keeps the filters that it pushes down with the scan, for all places and statements that use it.
"""

TASK = "task"
"""The option that selects what a scan returns instead of rows."""

TEXT_SCHEMA = "columns array<string>"
"""The schema of text files without a header, as Spark DDL [scan-framework "Selection List Processing"]."""

IMPLICIT_NAME = re.compile(r"fqn|filepath|filename|suffix|dir(?P<directory>0|[1-9]\d*)", re.IGNORECASE | re.ASCII)
"""The names of implicit columns. See :mod:`engine.scan.implicit_columns`."""

_DOT_ABOVE = "\N{COMBINING DOT ABOVE}"
"""The lower case of ``İ`` is ``i`` with this character."""

READER_GROUP = "lodge.readers"
"""The entry point group with which other packages add formats.

An entry point name that begins with a dot is a suffix. Any other name is a value of the option ``format``.
"""


@cache
def supported_suffixes() -> Sequence[str]:
    """Return the suffixes for which a built-in reader or a reader of another package exists.

    Installed packages are searched only once in each process, because the search takes milliseconds.
    """
    added = (name.lower() for name in entry_points(group=READER_GROUP).names if name.startswith("."))
    return sorted({*chain.from_iterable(SUFFIXES.values()), *added})


def has_reader(path: str) -> bool:
    """Return whether a file with this name can be scanned. Directories do not need a suffix."""
    return suffix_of(path) in supported_suffixes()


def selected_directory(path: str) -> str:
    """Return the fixed directory of a pattern. Return any other path unchanged."""
    return str(fixed_directory(path)) if is_pattern(path) else path


def mentioned_form(name: str) -> str:
    """Return the form in which the names of a statement are compared with columns, to skip other columns.

    Spark compares either the lower case of names or, for example in ``USING``, each character with case ignored. Names
    that it may take for the same have the same form. A few others have the same form too, such as ``ß`` and ``ss``.
    """
    return name.upper().casefold().replace(_DOT_ABOVE, "")


def known_schema(path: str, options: Mapping[str, str], mentioned: frozenset[str] | None) -> str | None:
    """Return the schema of a file as Spark DDL if it is known without opening the file.

    Otherwise return None.

    Args:
        path: The path of the file.
        options: The options of the scan.
        mentioned: The names, in their :func:`mentioned_form`, that the statement contains. None for all names.
    """
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
    """A file, directory or pattern of a workspace to scan.

    Attributes:
        workspace: The name of the workspace for error messages, such as ``dfs``.
        root: The absolute directory of the workspace, or its URI in an object store or HDFS, without credentials. It is
            the same on the driver and on all executors.
        path: The file, directory or pattern, relative to ``root``. ``.`` is the root itself.
        excluded: Absolute directories that the scan may not read through any path. They are skipped when a directory is
            listed, and raise an error if a path names them. If the root itself is inside an excluded directory, the
            scan may read the subdirectory of the root that its path names. No link may lead from this subdirectory to
            another.

    Raises:
        ScanOptionError: If ``root`` or an excluded directory is not absolute.
    """

    workspace: str
    root: str
    path: str
    excluded: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, directory in (("root", self.root), *(("excluded", each) for each in self.excluded)):
            if not PurePosixPath(directory).is_absolute() and not (option == "root" and self.is_remote):
                raise ScanOptionError(option, "must be an absolute directory")

    @property
    def is_remote(self) -> bool:
        """Whether the workspace is in an object store or HDFS."""
        return "://" in self.root

    def to_options(
        self, *, reader: Mapping[str, str] = MappingProxyType({}), mentioned: frozenset[str] | None = None
    ) -> dict[str, str]:
        """Return the source as options of the data source.

        Args:
            reader: The options of the scan and of its reader, as the user wrote them.
            mentioned: The names, in their :func:`mentioned_form`, that the statement contains. No other columns are
                needed. None for all columns. Very many names count as all columns.

        Raises:
            ScanOptionError: If the user set an option that is reserved for the gateway.
        """
        options = {"workspace": self.workspace, "root": self.root, "path": self.path}
        if self.excluded:
            options["excluded"] = json.dumps(self.excluded)
        if mentioned is not None and len(names := json.dumps(sorted(mentioned))) <= MAX_JSON_CHARACTERS:
            options["mentioned"] = names
        for option in reader:
            if option.lower() in SOURCE_OPTIONS:
                raise ScanOptionError(option, "cannot be specified for a path of a workspace")
        return {**reader, **options}

    @staticmethod
    def mentioned_in(options: Mapping[str, str]) -> frozenset[str] | None:
        """Return the ``mentioned`` names that :meth:`to_options` wrote.

        Raises:
            ScanOptionError: If the option is not a JSON array.
        """
        given = {key.lower(): value for key, value in options.items()}
        return frozenset(_parse_array(given, "mentioned")) if "mentioned" in given else None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Create the source from options of the data source.

        Case is ignored in the keys. Options that do not belong to the source are ignored.

        Raises:
            ScanOptionError: If a required option is missing, or an option is invalid.
        """
        given = {key.lower(): value for key, value in options.items()}
        for option in ("workspace", "root", "path"):
            if option not in given:
                raise ScanOptionError(
                    option, f"is missing; format {FORMAT!r} requires the options 'workspace', 'root' and 'path'"
                )
        excluded = _parse_array(given, "excluded") if "excluded" in given else ()
        return cls(given["workspace"], given["root"], given["path"], tuple(excluded))


def _parse_array(options: Mapping[str, str], option: str) -> Sequence[str]:
    try:
        return [str(name) for name in read_json(options[option])]
    except (ValueError, TypeError):
        limit = f"at most {MAX_JSON_CHARACTERS:,} characters"
        raise ScanOptionError(option, f"must be a JSON array of strings with {limit}") from None
