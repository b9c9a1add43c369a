import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ScanOptionError
from engine.scan_source import READER_GROUP, ScanSource, has_reader, supported_suffixes

paths = st.text().map("/".__add__)
sources = st.builds(ScanSource, st.text(), paths, st.text(), st.lists(paths, max_size=3).map(tuple))


@given(sources, st.sampled_from([str.lower, str.upper, str.title]))
def test_options_in_any_case_restore_the_source(source, change):
    options = {change(key): value for key, value in source.to_options().items()}
    assert ScanSource.from_options(options) == source


def test_other_options_are_ignored():
    options = {"workspace": "dfs", "root": "/data", "path": "a.csv", "inferSchema": "true"}
    assert ScanSource.from_options(options) == ScanSource("dfs", "/data", "a.csv")


@pytest.mark.parametrize("missing", ["workspace", "root", "path"])
def test_missing_option_is_named(missing):
    options = ScanSource("dfs", "/data", "a.csv").to_options()
    del options[missing]
    with pytest.raises(ScanOptionError, match=f"Option '{missing}' of a scan is missing") as raised:
        ScanSource.from_options(options)
    assert raised.value.option == missing


@pytest.mark.parametrize(("option", "root", "excluded"), [("root", "data", ()), ("excluded", "/data", ("/a", "tmp"))])
def test_relative_directory_is_rejected(option, root, excluded):
    with pytest.raises(ScanOptionError, match=f"'{option}' of a scan must be an absolute directory"):
        ScanSource("dfs", root, "a.csv", excluded)


@pytest.mark.parametrize(
    "path",
    [
        "a.csv",
        "dir.d/a.tsv",
        "A.PSV",
        "lineitem.tbl",
        "two.dots.csv",
        "a.csv.gz",
        "a.json.ZST",
        "a.parquet",
        "a.pq",
        "a.arrows",
    ],
)
def test_known_suffixes_have_a_reader(path):
    assert has_reader(path)


@pytest.mark.parametrize("path", ["a.txt", "a.csv.7z", "a", "csv", ".csv", "a.csv/b", ""])
def test_other_names_have_no_reader(path):
    assert not has_reader(path)


def test_every_supported_suffix_has_a_reader():
    assert all(has_reader(f"a{suffix}") for suffix in supported_suffixes())


def test_plugin_suffix_is_found_in_any_case(monkeypatch):
    brought = EntryPoints([EntryPoint(".Num", "no_such_package:Format", READER_GROUP)])
    monkeypatch.setattr("engine.scan_source.entry_points", lambda group: brought.select(group=group))
    supported_suffixes.cache_clear()
    try:
        assert has_reader("a.NUM")
    finally:
        supported_suffixes.cache_clear()


def test_module_loads_without_spark_and_arrow():
    code = "import sys, engine.scan_source; print([m for m in ('pyspark', 'pyarrow') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"
