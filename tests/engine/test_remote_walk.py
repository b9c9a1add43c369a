"""How a directory of an object store is listed (engine.storage.remote_walk)."""

import pytest
from pyarrow import fs

from engine.storage.remote_walk import RemoteWalk


class TooManyError(Exception):
    pass


class Store:
    """An object store that counts its listings, and the names that one of them returned."""

    def __init__(self, *paths):
        self.paths = paths
        self.listings = self.most = 0

    def list(self, directory, is_recursive):
        self.listings += 1
        found = {}
        for path in self.paths:
            if path.startswith(f"{directory}/"):
                names = path.removeprefix(f"{directory}/").split("/")
                for depth in range(1, len(names) + 1 if is_recursive else 2):
                    kind = fs.FileType.File if depth == len(names) else fs.FileType.Directory
                    found[f"{directory}/{'/'.join(names[:depth])}"] = kind
        self.most = max(self.most, len(found))
        return [fs.FileInfo(path, type=kind) for path, kind in found.items()]

    def walk(self, max_files=500_000):
        def require_few(count):
            if count > max_files:
                raise TooManyError

        self.marks = []
        walk = RemoteWalk(self.list, lambda info: info.path.split("/")[1:], require_few, max_files, self.marks.append)
        walk.run("b")
        return sorted("/".join(["b", *names]) for names, _ in walk.files)


PARTITIONS = [f"b/{year}/{month}/{day}/a.json" for year in range(5) for month in range(12) for day in range(30)]


@pytest.mark.parametrize(
    "paths",
    [
        [],
        ["b/a"],
        ["b/a", "b/c/d", "b/c/e/f", "b/g/h"],
        [f"b/{number}/a" for number in range(50)],
        [f"b/{'d/' * number}a" for number in range(50)],
        ["b/z", *PARTITIONS],
    ],
)
@pytest.mark.parametrize("max_files", [10_000, 1801])
def test_each_file_is_found_once(paths, max_files):
    assert Store(*paths).walk(max_files) == sorted(paths)


def test_hidden_names_are_ignored():
    paths = [f"b/{number}/{name}" for number in range(9) for name in ("a", "_b", ".c", "_d/e", "f/_g/h")]
    assert Store(*paths, "b/_i/j", "b/.k").walk() == [f"b/{number}/a" for number in range(9)]


def test_names_of_partitions_can_begin_with_an_underscore():
    paths = [f"b/_p={number}/a" for number in range(9)]
    assert Store(*paths, "b/_p/a").walk() == paths


def test_marks_of_tables_are_noted():
    store = Store("b/t/_delta_log/0.json", "b/t/a", "b/u/metadata/v1.metadata.json", "b/v/.hoodie/x", "b/w/metadata/c")
    store.walk()
    assert {"/".join(names) for names in store.marks} >= {"t/_delta_log", "u/metadata/v1.metadata.json", "v/.hoodie"}
    assert not any("w" in names for names in store.marks)


def test_partitions_need_few_requests():
    store = Store(*PARTITIONS)
    store.walk()
    assert store.listings <= 30
    flat = Store(*(f"b/{number}/a" for number in range(3000)))
    flat.walk()
    assert flat.listings == 4


def test_walk_stops_when_there_are_too_many_files():
    store = Store(*(f"b/{one}/{two}/{file}" for one in range(20) for two in range(20) for file in range(50)))
    with pytest.raises(TooManyError):
        store.walk(max_files=500)
    assert store.most <= 50
    assert store.listings <= 15
