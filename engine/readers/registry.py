"""Registry of the formats that scans support, by name and by suffix.

The registry contains the built-in formats and the formats of other packages. A package adds a format with entry
points of the group ``lodge.readers``. Each entry point refers to a class that implements
:class:`engine.scan.reader.ReaderFormat` and has no constructor arguments. If the name of an entry point is a suffix
that starts with a dot, the format is used for files with this suffix. Any other name is a value of the option
``format``:

    [project.entry-points."lodge.readers"]
    fixed_width = "my_package.fixed_width:FixedWidthFormat"
    ".fixed" = "my_package.fixed_width:FixedWidthFormat"

Guarantees:

1. Case is ignored when suffixes and names are compared. A compression suffix is ignored if another suffix precedes it:
   ``A.CSV.GZ`` is a CSV file.
2. Another package cannot change the meaning of a name or a suffix. If two packages use the same name or suffix, the
   registry raises an error.
3. A package is imported only when a scan needs its format.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Self

from engine.errors import EngineError, NoReaderError, ScanOptionError, describe_cause
from engine.options import is_options
from engine.readers.columnar.ipc import IpcFormat
from engine.readers.columnar.orc import OrcFormat
from engine.readers.columnar.parquet import ParquetFormat
from engine.readers.delimited.format import DelimitedFormat
from engine.readers.json_objects.format import JsonFormat
from engine.scan.reader import ReaderFormat, SourceFile
from engine.scan_source import READER_GROUP
from engine.suffixes import suffix_of

BUILT_IN: tuple[ReaderFormat, ...] = (DelimitedFormat(), JsonFormat(), ParquetFormat(), OrcFormat(), IpcFormat())


class ReaderPluginError(EngineError):
    """Raised if an entry point of the group ``lodge.readers`` cannot be used.

    Attributes:
        entry_point: The name of the entry point.
    """

    condition = "LODGE_READER_PLUGIN"

    def __init__(self, entry_point: str, problem: str) -> None:
        text = f"The reader of entry point {entry_point!r} of group {READER_GROUP!r} {problem}."
        super().__init__(text, {"reader": entry_point})
        self.entry_point = entry_point


@dataclass(frozen=True, slots=True)
class ReaderRegistry:
    """Formats by name and by suffix, in lower case. A suffix includes its dot.

    Attributes:
        built_in: The formats of Lodge.
        plugins: The entry points of other packages.
    """

    built_in: Mapping[str, ReaderFormat]
    plugins: Mapping[str, EntryPoint]

    @classmethod
    def of(cls, built_in: Iterable[ReaderFormat], plugins: Iterable[EntryPoint] = ()) -> Self:
        """Create a registry.

        Raises:
            ReaderPluginError: If an entry point has the name or the suffix of another format.
        """
        own = {key: one for one in built_in for key in (one.name, *one.suffixes)}
        added: dict[str, EntryPoint] = {}
        for plugin in plugins:
            key = plugin.name.lower()
            if key in own and plugin.value == _address(own[key]):
                continue
            if key in own or added.setdefault(key, plugin).value != plugin.value:
                raise ReaderPluginError(plugin.name, "has a name that another format already uses")
        return cls(own, added)

    def named(self, name: str) -> ReaderFormat | None:
        """Return the format with a name. Return None if there is none.

        Raises:
            ReaderPluginError: If the format cannot be imported.
        """
        return None if name.startswith(".") else self._find(name.lower())

    def for_path(self, path: str) -> ReaderFormat | None:
        """Return the format for the suffix of a path. Return None if there is none.

        Raises:
            ReaderPluginError: If the format cannot be imported.
        """
        suffix = suffix_of(path)
        return self._find(suffix) if suffix else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(key for key in (*self.built_in, *self.plugins) if not key.startswith("."))

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(key for key in (*self.built_in, *self.plugins) if key.startswith("."))

    def _find(self, key: str) -> ReaderFormat | None:
        if key in self.built_in:
            return self.built_in[key]
        return _load(self.plugins[key]) if key in self.plugins else None


@cache
def registry() -> ReaderRegistry:
    """Return the registry of this process.

    Raises:
        ReaderPluginError: If two packages use the same name or suffix.
    """
    return ReaderRegistry.of(BUILT_IN, entry_points(group=READER_GROUP))


def reader_format(file: SourceFile, name: str | None = None) -> ReaderFormat:
    """Return the format with the given name, or the format for the suffix of the file.

    Raises:
        ScanOptionError: If there is no format with this name.
        NoReaderError: If there is no format for the suffix of the file.
        ReaderPluginError: If an entry point cannot be used.
    """
    known = registry()
    found = known.for_path(file.path) if name is None else known.named(name)
    if found is not None:
        return found
    if name is not None:
        names = ", ".join(repr(one) for one in known.names)
        raise ScanOptionError("format", f"must be one of {names}, not {name!r}")
    raise NoReaderError(file.workspace, file.path, others=0, supported=known.suffixes)


def _address(one: ReaderFormat) -> str:
    return f"{type(one).__module__}:{type(one).__qualname__}"


@cache
def _load(plugin: EntryPoint) -> ReaderFormat:
    try:
        one: ReaderFormat = plugin.load()()
        _ = (one.name.lower(), *one.suffixes, one.options, one.discover, one.reader, one.splits)
    except (ImportError, AttributeError, TypeError) as error:
        raise ReaderPluginError(plugin.name, f"cannot be loaded: {describe_cause(error)}") from error
    if not is_options(one.options):
        raise ReaderPluginError(plugin.name, "has options that are not a class of engine.options")
    return one
