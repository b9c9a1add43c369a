"""Numbers in comments are the guarantees of ``engine.storage.local``."""

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest

from engine.errors import (
    FileError,
    NoReaderError,
    PathNotFoundError,
    PathRefusedError,
    TableDirectoryError,
    UnreadableFileError,
)
from engine.storage import local
from engine.storage.files import list_files, open_file
from engine.storage.listed_file import ListedFile

RACE_OUTCOMES = 200
DEADLINE_SECONDS = 60.0


def list_paths(source, **options):
    return [file.path for file in list_files(source, **options)]


def open_path(source, path):
    """Open a file as a task does that got its listing."""
    try:
        version = str(Path(source.root, path).stat().st_mtime_ns)
    except (OSError, ValueError):
        version = ""
    return open_file(source, ListedFile(path, 0, version))


def read(source, path):
    with open_path(source, path) as file:
        return file.read()


# 1: nothing outside the workspace, nothing excluded


def test_link_inside_the_workspace_is_followed(workspace):
    file = workspace.write("data/a.csv", "1\n")
    workspace.link("file.csv", file)
    workspace.link("directory", workspace.root / "data")
    assert read(workspace.scan("file.csv"), "file.csv") == b"1\n"
    assert list_paths(workspace.scan("directory")) == ["directory/a.csv"]


@pytest.mark.parametrize("path", ["link.csv", "d/link", "d/link/secret.csv", "d", "."])
def test_link_out_of_the_workspace_is_rejected(workspace, path):
    workspace.write("d/a.csv")
    workspace.link("link.csv", workspace.outside / "secret.csv")
    workspace.link("d/link", workspace.outside)
    with pytest.raises(PathRefusedError, match="leads out of the workspace") as raised:
        list_paths(workspace.scan(path))
    assert str(workspace.outside) not in str(raised.value)
    assert str(workspace.root) not in str(raised.value)


def test_directory_with_the_workspace_name_as_prefix_is_outside(workspace):
    neighbour = workspace.root.with_name("root2")
    neighbour.mkdir()
    (neighbour / "a.csv").write_text("1\n")
    workspace.link("a.csv", neighbour / "a.csv")
    with pytest.raises(PathRefusedError, match="leads out"):
        list_paths(workspace.scan("a.csv"))


def test_workspace_root_may_be_a_link(workspace, tmp_path):
    workspace.write("a.csv", "1\n")
    (tmp_path / "alias").symlink_to(workspace.root)
    source = type(workspace)(tmp_path / "alias", workspace.outside).scan(".")
    assert list_paths(source) == ["a.csv"]
    assert read(source, "a.csv") == b"1\n"


def test_file_replaced_by_a_link_after_listing_is_rejected(workspace):
    file = workspace.write("a.csv")
    source = workspace.scan(".")
    assert list_paths(source) == ["a.csv"]
    file.unlink()
    workspace.link("a.csv", workspace.outside / "secret.csv")
    with pytest.raises(PathRefusedError, match="leads out"):
        open_path(source, "a.csv")


@contextlib.contextmanager
def replacing_link(link: Path, targets: list[Path]):
    """Replace a link to one target by a link to the next, as fast as possible."""
    stop = threading.Event()

    def replace():
        spare = link.with_name(".spare")
        while not stop.is_set():
            for target in targets:
                spare.symlink_to(target)
                spare.replace(link)

    link.symlink_to(targets[0])
    thread = threading.Thread(target=replace)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE_SECONDS)


def results_in_race(workspace, look):
    """Return what a function returns while a link leads inside and outside by turns, and how often it is refused.

    The race ends when the function has returned and was refused often enough.
    """
    seen, returned, refused = set(), 0, 0
    with replacing_link(workspace.root / "link", [workspace.root / "data", workspace.outside]):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while min(returned, refused) < RACE_OUTCOMES and time.monotonic() < deadline:
            try:
                seen.update(look())
                returned += 1
            except PathRefusedError:
                refused += 1
    return seen, refused


def test_link_replaced_in_a_race_never_leads_outside(workspace):
    version = str(workspace.write("data/secret.csv", "public\n").stat().st_mtime_ns)
    source = workspace.scan("link")

    def look():
        with open_file(source, ListedFile("link/secret.csv", 0, version)) as file:
            return [file.read()]

    seen, refused = results_in_race(workspace, look)
    assert seen == {b"public\n"}
    assert refused


def test_directory_replaced_in_a_race_never_lists_outside(workspace):
    workspace.write("data/public.csv")
    source = workspace.scan("link")
    seen, refused = results_in_race(workspace, lambda: list_paths(source))
    assert seen == {"link/public.csv"}
    assert refused


def test_walk_omits_the_excluded_directory(workspace):
    workspace.write("a.csv")
    workspace.write("tmp/session/table.csv")
    assert list_paths(workspace.scan(".", excluded=workspace.root / "tmp")) == ["a.csv"]


@pytest.mark.parametrize("path", ["tmp", "tmp/session", "tmp/session/table.csv", "link", "link.csv"])
def test_named_path_in_the_excluded_directory_is_rejected(workspace, path):
    table = workspace.write("tmp/session/table.csv")
    workspace.link("link", workspace.root / "tmp" / "session")
    workspace.link("link.csv", table)
    source = workspace.scan(path, excluded=workspace.root / "tmp")
    with pytest.raises(PathRefusedError, match="scans may not read"):
        list_paths(source)
    with pytest.raises(FileError):
        open_path(source, path)


def test_link_into_the_excluded_directory_is_rejected(workspace):
    workspace.write("a.csv")
    workspace.write("tmp/session/table.csv")
    workspace.link("link", workspace.root / "tmp" / "session")
    with pytest.raises(PathRefusedError, match="'link' in workspace 'dfs' is refused"):
        list_paths(workspace.scan(".", excluded=workspace.root / "tmp"))


def test_no_link_joins_directories_of_an_excluded_workspace(workspace):
    workspace.write("theirs/t/secret.csv")
    workspace.write("mine/a.csv", "1\n")
    workspace.link("mine/same.csv", workspace.write("mine/b/b.csv", "2\n"))
    source = workspace.scan("mine", excluded=workspace.root)
    assert read(source, "mine/a.csv") == b"1\n"
    assert read(source, "mine/same.csv") == b"2\n"
    workspace.link("mine/link", workspace.root / "theirs")
    workspace.link("link", workspace.root / "theirs")
    for path in (
        "mine",
        "mine/link",
        "mine/*/t/*.csv",
        "mine/link/t/secret.csv",
        "link",
        "link/t/secret.csv",
        "*/t/*.csv",
    ):
        with pytest.raises((PathRefusedError, PathNotFoundError)):
            list_paths(workspace.scan(path, excluded=workspace.root))
    with pytest.raises(PathRefusedError, match="scans may not read"):
        read(source, "mine/link/t/secret.csv")


def test_excluded_directory_elsewhere_has_no_effect(workspace):
    workspace.write("a.csv")
    assert list_paths(workspace.scan(".", excluded=workspace.outside)) == ["a.csv"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside/secret.csv", "d/../../x.csv", "..", "a\0.csv"])
def test_path_outside_the_workspace_is_rejected(workspace, path):
    with pytest.raises(PathRefusedError, match="must be relative to the workspace"):
        list_paths(workspace.scan(path))
    with pytest.raises(PathRefusedError, match="must be relative to the workspace"):
        open_path(workspace.scan("."), path)


# 2: regular files only, and no waiting


@pytest.mark.timeout(120)
@pytest.mark.parametrize("path", ["pipe.csv", "link.csv", "."])
def test_fifo_is_rejected_without_blocking(workspace, path):
    os.mkfifo(workspace.root / "pipe.csv")
    workspace.link("link.csv", workspace.root / "pipe.csv")
    with pytest.raises(UnreadableFileError, match="neither a file nor a directory"):
        list_paths(workspace.scan(path))
    with pytest.raises(UnreadableFileError):
        open_path(workspace.scan(path), path)


def test_directory_cannot_be_opened_as_a_file(workspace):
    (workspace.root / "d.csv").mkdir()
    with pytest.raises(UnreadableFileError, match=r"'d\.csv' in workspace 'dfs' cannot be read: it is a directory"):
        open_path(workspace.scan("d.csv"), "d.csv")


def test_link_to_itself_is_rejected(workspace):
    workspace.link("a.csv", Path("a.csv"))
    with pytest.raises(UnreadableFileError, match="Too many levels of symbolic links"):
        list_paths(workspace.scan("a.csv"))


def test_nothing_is_read_without_proc(workspace, monkeypatch, tmp_path):
    workspace.write("a.csv")
    monkeypatch.setattr(local, "_OPEN_DESCRIPTORS", tmp_path / "no-proc")
    with pytest.raises(UnreadableFileError, match="location of an open file cannot be checked"):
        open_path(workspace.scan("."), "a.csv")


# 3: the files of a directory


def test_scan_of_a_file_lists_that_file(workspace):
    workspace.write("d/a.csv")
    assert list_paths(workspace.scan("d//a.csv")) == ["d/a.csv"]


@pytest.mark.parametrize("path", [".", ""])
def test_directory_is_listed_in_order(workspace, path):
    names = ["b.csv", "a/2.tsv", "a/10.psv", "a/deep/er/x.CSV", "c.tbl"]
    for name in names:
        workspace.write(name)
    assert list_paths(workspace.scan(path)) == sorted(names)


def test_names_with_a_leading_dot_or_underscore_are_omitted(workspace):
    for name in ["a.csv", "_SUCCESS", ".a.csv.crc", "_temporary/x.csv", ".lodge/y.csv", "d/_z.csv", "b.csv._COPYING_"]:
        workspace.write(name)
    assert list_paths(workspace.scan(".")) == ["a.csv"]


def test_names_of_partitions_can_begin_with_an_underscore(workspace):
    names = ["_region=eu/a.csv", "_region=us/_part=1/b.csv", "c/_d=1.csv"]
    for name in [*names, ".region=x/c.csv", "_region/d.csv"]:
        workspace.write(name)
    assert list_paths(workspace.scan(".")) == sorted(names)
    assert list_paths(workspace.scan("_region=*")) == sorted(names)[:2]


TABLES = {"Delta": "_delta_log/00000.json", "Iceberg": "metadata/v1.metadata.json", "Hudi": ".hoodie/hoodie.properties"}


@pytest.mark.parametrize("format_", TABLES)
@pytest.mark.parametrize(
    "path", [".", "lake", "lake/t", "lake/t/data", "lake/t/data/p=1", "lake/*", "**/p=1", "l*/t/data/*.csv"]
)
def test_directory_of_a_table_is_refused(workspace, format_, path):
    for name in (TABLES[format_], "data/p=1/a.csv", "data/b.csv"):
        workspace.write(f"lake/t/{name}")
    workspace.write("lake/other/c.csv")
    with pytest.raises(TableDirectoryError, match=f"directory of a {format_} table") as raised:
        list_paths(workspace.scan(path))
    assert raised.value.path == "lake/t"
    assert [path for path in list_paths(workspace.scan(path), is_raw=True) if "/t/data/" in path]


@pytest.mark.parametrize("format_", TABLES)
def test_other_paths_beside_a_table_are_scanned(workspace, format_):
    for name in (TABLES[format_], "data/a.csv"):
        workspace.write(f"lake/t/{name}")
    workspace.write("lake/other/c.csv")
    assert list_paths(workspace.scan("lake/other")) == ["lake/other/c.csv"]
    assert list_paths(workspace.scan("lake/o*")) == ["lake/other/c.csv"]
    assert list_paths(workspace.scan("lake/t/data/a.csv")) == ["lake/t/data/a.csv"]


@pytest.mark.parametrize("name", ["metadata/a.csv", "metadata/x.json", "delta_log/a.csv", "v1.metadata.json"])
def test_similar_names_are_no_table(workspace, name):
    workspace.write(name)
    assert list_paths(workspace.scan(".")) == [name]


def test_root_of_the_workspace_can_be_a_table(workspace):
    for name in ("_delta_log/00000.json", "d/a.csv"):
        workspace.write(name)
    for path in (".", "d", "d/*"):
        with pytest.raises(TableDirectoryError) as raised:
            list_paths(workspace.scan(path))
        assert raised.value.path == "."


def test_empty_directory_lists_no_files(workspace):
    (workspace.root / "d" / "e").mkdir(parents=True)
    assert list_paths(workspace.scan("d")) == []


def test_directory_with_unknown_suffixes_is_rejected(workspace):
    for name in ["a.csv", "b.xyz", "c/d.txt", "c/e"]:
        workspace.write(name)
    with pytest.raises(NoReaderError, match=r"'b.xyz' in workspace 'dfs', like 2 other .* has no reader") as raised:
        list_paths(workspace.scan("."))
    assert raised.value.path == "b.xyz"
    assert ".csv" in raised.value.supported


def test_file_without_reader_is_rejected(workspace):
    workspace.write("a.xyz")
    with pytest.raises(NoReaderError, match=r"'a.xyz' in workspace 'dfs' has no reader\. Scan files .*\.csv"):
        list_paths(workspace.scan("a.xyz"))


@pytest.mark.parametrize("path", ["b.csv", "d/b.csv", "a.csv/b.csv", "broken.csv", "broken"])
def test_missing_path_is_named(workspace, path):
    workspace.write("a.csv")
    workspace.link("broken.csv", workspace.root / "gone.csv")
    workspace.link("broken", workspace.root / "gone")
    with pytest.raises(PathNotFoundError, match=f"'{path}' in workspace 'dfs' does not exist"):
        list_paths(workspace.scan(path))


# 4: no file twice


@pytest.mark.parametrize(("name", "target"), [("latest.csv", "2024.csv"), ("latest", "year"), ("year/up", ".")])
def test_two_paths_to_one_file_are_rejected(workspace, name, target):
    workspace.write("2024.csv")
    workspace.write("year/1.csv")
    workspace.link(name, workspace.root / target)
    with pytest.raises(PathRefusedError, match="leads to the same location"):
        list_paths(workspace.scan("."))


# Errors


def test_directory_with_too_many_files_is_rejected(workspace):
    for name in ("a.csv", "b/c.csv", "b/d.csv"):
        workspace.write(name)
    assert len(local.list_files(workspace.scan("."), max_files=3)) == 3
    with pytest.raises(UnreadableFileError, match="there are more than 2 files; scan its directories separately"):
        local.list_files(workspace.scan("."), max_files=2)


@pytest.mark.parametrize("name", [".hidden", "_hidden", "directory", ".directory"])
def test_directory_with_too_many_entries_is_rejected_whatever_their_names(workspace, name):
    for number in range(7):
        workspace.write(f"a/{name}{number}/b.csv" if "directory" in name else f"a/{name}{number}")
    with pytest.raises(UnreadableFileError, match="its directories have more than 6 entries"):
        local.list_files(workspace.scan("a"), max_files=3)


def test_listing_reports_its_progress_and_can_be_ended(workspace):
    for number in range(2500):
        workspace.write(f"d/{number}.csv", "")
    workspace.write("e/f/a.csv")
    calls = []
    assert len(list_files(workspace.scan("."), on_progress=lambda: calls.append(1))) == 2501
    assert len(calls) >= 4 + 2
    with pytest.raises(ZeroDivisionError):
        list_files(workspace.scan("."), on_progress=lambda: 1 // 0)


def test_file_name_with_line_feed_keeps_the_message_on_one_line(workspace):
    workspace.write(os.fsdecode(b"new\nline\xff.xyz"))
    with pytest.raises(NoReaderError) as raised:
        list_paths(workspace.scan("."))
    message = str(raised.value)
    assert message.startswith(r"'new\nline\udcff.xyz' in workspace 'dfs' has no reader")
    assert message.encode().count(b"\n") == 0


def test_no_descriptor_stays_open(workspace):
    workspace.write("d/a.csv")
    workspace.link("link", workspace.outside)
    os.mkfifo(workspace.root / "pipe")
    for path in ["d", "d/a.csv", "link", "pipe", ".", "gone"]:
        with contextlib.suppress(FileError):
            list_paths(workspace.scan(path))
        with contextlib.suppress(FileError):
            open_path(workspace.scan("."), path).close()
    assert [path for path in open_paths() if path.is_relative_to(workspace.root.parent)] == []


def open_paths():
    """Yield the paths of the open files of this process."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield descriptor.readlink()
