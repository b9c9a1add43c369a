"""The package of examples/own_reader, built and installed as a user does, and the page that explains it."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from engine.scan_source import has_reader

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "examples" / "own_reader"
PAGE = REPOSITORY / "docs" / "how-to" / "own-reader.md"
EXCERPT = re.compile(r"^```\w+ (?P<file>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

COLUMNS: Mapping[str, str] = MappingProxyType({"columns": "id int 4, name string 10, amount int 6"})
STOCK = "   1bolt          12\r\n   2nut\n\n   3washer        -7"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into a directory, from a copy because the build leaves files behind."""
    directory = tmp_path_factory.mktemp("own_reader")
    source, target = directory / "source", directory / "installed"
    shutil.copytree(PACKAGE, source)
    command = [sys.executable, "-m", "pip", "install", "--isolated", "--disable-pip-version-check", "--no-index"]
    command += ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return target


@contextmanager
def started(installed: Path, *arguments: str) -> Iterator[Callable[[dict[str, str]], dict[str, Any]]]:
    """Run a process that has the package, and yield a function that sends it the options of a scan."""
    command = [sys.executable, str(Path(__file__).with_name("own_reader_in_process.py")), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(REPOSITORY)])}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:

        def ask(options: dict[str, str]) -> dict[str, Any]:
            process.stdin.write(json.dumps(options) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, process.stderr.read()
            answer: dict[str, Any] = json.loads(line)
            return answer

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def process(installed):
    with started(installed) as ask:
        yield ask


@pytest.fixture
def scan(workspace, process):
    """Scan a path in a process that has the package."""
    return lambda path, mentioned=None, **options: process(
        workspace.scan(path).to_options(reader=options, mentioned=mentioned)
    )


def test_installed_package_adds_a_suffix(workspace, scan):
    workspace.write("stock.fwf", STOCK)
    found = scan("stock.fwf", **COLUMNS)
    assert found["schema"] == {"id": "int64", "name": "string", "amount": "int64"}
    assert found["columns"] == {"id": [1, 2, 3], "name": ["bolt", "nut", "washer"], "amount": [12, None, -7]}


def test_gateway_accepts_the_suffix_without_importing_the_package(workspace, installed, scan):
    with started(installed, "accept") as accept:
        for path in ("stock.fwf", "STOCK.FWF", "stock.fwf.gz"):
            assert accept(workspace.scan(path).to_options()) == {"is_accepted": True, "loaded": []}
            assert not has_reader(path)  # this process lacks the package
        assert not accept(workspace.scan("stock.txt").to_options())["is_accepted"]
    for path in ("STOCK.FWF", "stock.fwf.gz"):
        workspace.write(path, gzip.compress(STOCK.encode()) if path.endswith(".gz") else STOCK)
        assert scan(path, **COLUMNS)["rows"] == 3


def test_format_option_reads_other_suffixes(workspace, scan):
    workspace.write("stock.txt", STOCK)
    assert scan("stock.txt", format="fixed_width", **COLUMNS)["rows"] == 3


def test_discovery_finds_files_in_subdirectories(workspace, scan):
    workspace.write("all/a.fwf", STOCK)
    workspace.write("all/below/b.fwf", "   4bolt           1")
    found = scan("all", **COLUMNS)
    assert found["columns"]["id"] == [1, 2, 3, 4]
    assert found["columns"]["dir0"] == [None, None, None, "below"]


def test_unmentioned_column_is_not_in_the_output(workspace, scan):
    workspace.write("stock.fwf", STOCK)
    found = scan("stock.fwf", mentioned=frozenset({"amount", "filename"}), **COLUMNS)
    assert found["columns"] == {"amount": [12, None, -7], "filename": ["stock.fwf"] * 3}


def test_rows_are_counted_without_columns(workspace, scan):
    workspace.write("stock.fwf", STOCK)
    found = scan("stock.fwf", mentioned=frozenset(), **COLUMNS)
    assert (found["columns"], found["rows"]) == ({}, 3)


def test_unsplittable_file_is_read_by_one_task(workspace, scan):
    rows = 20_000
    workspace.write("long.fwf", "".join(f"{number:20}\n" for number in range(rows)))
    found = scan("long.fwf", columns="n int 20", partition_bytes="65536")
    assert (found["partitions"], found["columns"]["n"]) == (1, list(range(rows)))


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ("   1bolt\n\n   x", "ValueConversionError", "column 'id' must be bigint, but the value is 'x'"),
        ("   1bolt\n\n   ²nut", "ValueConversionError", "column 'id' must be bigint, but the value is '²'"),
        ("   1bolt\n\n   2nut               9", "FormatError", "there is text after the last column"),
    ],
)
def test_invalid_line_is_rejected_with_file_and_line(workspace, scan, lines, error, message):
    workspace.write("sub/stock.fwf", lines)
    kind, text = scan("sub/stock.fwf", **COLUMNS)["error"]
    assert kind == error
    assert text.startswith(f"'sub/stock.fwf' in workspace 'dfs', line 3: {message}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "is missing"),
        ({"columns": "id int"}, "cannot be 'id int': 'id int' is not a name, a type and a width"),
        ({"columns": "id int 0"}, "'id int 0' is not a name, a type and a width"),
        ({"columns": "id int 4", "width": "4"}, "is unknown; the options are columns"),
    ],
)
def test_invalid_option_is_named(workspace, scan, options, problem):
    workspace.write("stock.fwf", STOCK)
    kind, text = scan("stock.fwf", **options)["error"]
    assert kind == "ScanOptionError"
    assert re.search(problem, text)


def test_page_shows_the_code_of_the_example():
    excerpts = list(EXCERPT.finditer(PAGE.read_text()))
    shown = {found["file"] for found in excerpts}
    assert shown == {f"examples/own_reader/{name}" for name in ("pyproject.toml", "lodge_fixed_width.py")}
    for found in excerpts:
        assert found["text"] in (REPOSITORY / found["file"]).read_text(), found["text"]
