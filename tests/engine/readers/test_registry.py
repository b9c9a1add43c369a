"""Numbers in comments are the guarantees of ``engine.readers.registry``."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar

import pytest

from engine.errors import NoReaderError, ScanOptionError
from engine.options import options_of, parse_options
from engine.readers.registry import BUILT_IN, READER_GROUP, ReaderPluginError, ReaderRegistry, reader_format
from engine.scan.reader import SourceFile
from engine.scan_source import supported_suffixes
from engine.suffixes import SUFFIXES


@dataclass(frozen=True)
class NoOptions:
    pass


class NumbersFormat:
    """The format of another package."""

    name: ClassVar[str] = "numbers"
    suffixes: ClassVar[tuple[str, ...]] = (".num",)
    options: ClassVar[type] = NoOptions

    def discover(self, file, options): ...
    def reader(self, file, options): ...
    def splits(self, file, options, target_bytes): ...


def entry_point(name, value="tests_plugin:NumbersFormat"):
    return EntryPoint(name, value, READER_GROUP)


@pytest.fixture
def plugin_module(monkeypatch):
    import sys
    import types

    module = types.ModuleType("tests_plugin")
    module.NumbersFormat = NumbersFormat
    monkeypatch.setitem(sys.modules, "tests_plugin", module)


def file(path):
    return SourceFile("dfs", path, 0, lambda: None)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.csv", "text"),
        ("a.TSV", "text"),
        ("a.b.psv.gz", "text"),
        ("a.tbl.ZST", "text"),
        ("a.json", "json"),
        ("a.jsonl.bz2", "json"),
        ("a.ndjson.lz4", "json"),
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("a.orc", "orc"),
        ("a.arrow", "arrow"),
        ("a.feather", "arrow"),
        ("a.ipc", "arrow"),
        ("a.arrows", "arrow"),
    ],
)
def test_suffix_chooses_the_format(path, name):  # 1
    assert reader_format(file(path)).name == name


def test_gateway_and_formats_know_the_same_suffixes():
    assert {one.name: one.suffixes for one in BUILT_IN} == SUFFIXES
    added = [name.lower() for name in entry_points(group=READER_GROUP).names if name.startswith(".")]
    assert sorted({*(suffix for one in BUILT_IN for suffix in one.suffixes), *added}) == supported_suffixes()


def test_format_option_overrides_the_suffix():
    assert reader_format(file("a.txt"), "JSON").name == "json"


@pytest.mark.parametrize("path", ["a.txt", "a", "a.gz", ".csv", "csv"])
def test_unknown_suffix_has_no_reader(path):
    with pytest.raises(NoReaderError, match=r"\.csv, .*\.parquet"):
        reader_format(file(path))


@pytest.mark.parametrize("name", ["xml", ".csv", ""])
def test_unknown_format_is_rejected_with_the_known_ones(name):
    with pytest.raises(ScanOptionError, match="'text', 'json', 'parquet', 'orc', 'arrow'"):
        reader_format(file("a.csv"), name)


def test_plugin_format_is_found_by_its_entry_points(plugin_module):
    known = ReaderRegistry.of(BUILT_IN, [entry_point("Numbers"), entry_point(".num")])
    assert known.named("numbers").name == "numbers"
    assert known.for_path("a.NUM.gz").name == "numbers"
    assert ".num" in known.suffixes
    assert "numbers" in known.names


@pytest.mark.parametrize("name", ["text", ".CSV", "json"])
def test_plugin_cannot_claim_a_built_in_name(name):  # 2
    with pytest.raises(ReaderPluginError, match=f"entry point '{name}' .*another format already uses"):
        ReaderRegistry.of(BUILT_IN, [entry_point(name)])


def test_two_plugins_cannot_claim_one_name():  # 2
    with pytest.raises(ReaderPluginError, match="'numbers'"):
        ReaderRegistry.of(BUILT_IN, [entry_point("numbers"), entry_point("numbers", "other:Format")])


def test_built_in_formats_may_also_be_entry_points():
    own = [entry_point(one.name, f"{type(one).__module__}:{type(one).__qualname__}") for one in BUILT_IN]
    assert not ReaderRegistry.of(BUILT_IN, own).plugins


def test_plugin_is_imported_only_when_needed():  # 3
    known = ReaderRegistry.of(BUILT_IN, [entry_point(".num", "no_such_package:Format")])
    assert known.for_path("a.csv").name == "text"
    with pytest.raises(ReaderPluginError, match=r"'\.num' .*cannot be loaded: ModuleNotFoundError\."):
        known.for_path("a.num")


@pytest.mark.parametrize("one", BUILT_IN)
def test_options_have_descriptions_and_accept_text(one):
    options = options_of(one.options)
    assert all(option.description for option in options.values())
    defaults = {name: option.default for name, option in options.items() if option.default is not None}
    as_text = {name: str(getattr(value, "value", value)) for name, value in defaults.items()}
    assert parse_options(one.options, as_text) == one.options()
    with pytest.raises(ScanOptionError, match="Option 'no_such_option' of a scan is unknown"):
        parse_options(one.options, {"no_such_option": "1"})


def test_plugin_without_option_class_is_rejected(plugin_module, monkeypatch):
    monkeypatch.setattr(NumbersFormat, "options", dict)
    known = ReaderRegistry.of(BUILT_IN, [entry_point("no_options", "tests_plugin:NumbersFormat")])
    with pytest.raises(ReaderPluginError, match=r"'no_options' .* has options that are not a class of engine.options"):
        known.named("no_options")
