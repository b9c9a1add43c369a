"""Numbers in comments are the guarantees of ``gateway.scans.schema_cache``."""

import threading

import pytest

from engine.storage.listed_file import ListedFile
from gateway.scans.schema_cache import MAX_BYTES, MAX_SCHEMA_BYTES, Examination, SchemaCache
from workspace.identifiers import Principal

ANN = Examination(Principal("ann"), "/data", {"header": "true"})
FILE = ListedFile("a.csv", 10, "1")


@pytest.fixture
def cache():
    found = SchemaCache()
    found.store(ANN, [FILE], b"schema")
    return found


def test_schema_is_found_for_the_same_file(cache):
    assert cache.find(ANN, [FILE, ListedFile("b.csv", 10, "1")]) == [b"schema", None]


@pytest.mark.parametrize(
    "file", [ListedFile("b.csv", 10, "1"), ListedFile("a.csv", 11, "1"), ListedFile("a.csv", 10, "2")]
)
def test_changed_file_is_unknown(cache, file):  # 1
    assert cache.find(ANN, [file]) == [None]


@pytest.mark.parametrize(
    "other",
    [
        Examination(Principal("bob"), "/data", {"header": "true"}),  # 2
        Examination(Principal("ann"), "/other", {"header": "true"}),  # 1
        Examination(Principal("ann"), "/data", {}),  # 1
        Examination(Principal("ann"), "/data", {"header": "false"}),  # 1
    ],
)
def test_other_examination_is_unknown(cache, other):
    assert cache.find(other, [FILE]) == [None]


def test_file_that_may_change_unnoticed_is_not_remembered(cache):  # 1
    cache.store(ANN, [ListedFile("a.csv", 10, "1", is_settled=False)], b"other")
    assert cache.find(ANN, [FILE]) == [None]


def test_size_is_bounded_and_the_least_used_go_first():  # 3
    cache = SchemaCache(max_bytes=100_000)
    files = [ListedFile(str(number), 1, "1") for number in range(1000)]
    for file in files:
        cache.store(ANN, [file], b"the same schema")
        assert cache.find(ANN, files[:1]) == [b"the same schema"]
    assert cache.size_bytes <= 100_000
    known = [schema is not None for schema in cache.find(ANN, files)]
    assert known == [True] + [False] * (1000 - sum(known)) + [True] * (sum(known) - 1)
    assert 300 < sum(known) < 1000


def test_large_schemas_are_counted_until_they_are_removed():  # 3
    cache = SchemaCache(max_bytes=100_000)
    for number in range(50):
        cache.store(ANN, [ListedFile(str(number), 1, "1")], bytes([number]) * 30_000)
        assert cache.size_bytes <= 100_000
    assert cache.find(ANN, [ListedFile("49", 1, "1")]) == [bytes([49]) * 30_000]


def test_huge_schema_is_not_stored_and_leaves_the_others(cache):  # 4
    huge = ListedFile("huge", 1, "1")
    cache.store(ANN, [huge], b"small")
    for size_bytes in (MAX_SCHEMA_BYTES + 1, MAX_BYTES + 1):
        cache.store(Examination(Principal("bob"), "/data", {}), [huge], bytes(size_bytes))
    cache.store(ANN, [huge], bytes(MAX_SCHEMA_BYTES + 1))
    assert cache.find(ANN, [FILE, huge]) == [b"schema", None]
    cache.store(ANN, [huge], bytes(MAX_SCHEMA_BYTES))
    assert cache.find(ANN, [FILE, huge]) == [b"schema", bytes(MAX_SCHEMA_BYTES)]


def test_threads_share_a_cache():
    cache = SchemaCache(max_bytes=50_000)
    files = [ListedFile(str(number), 1, "1") for number in range(300)]

    def work(schema):
        for _ in range(20):
            cache.store(ANN, files, schema)
            assert set(cache.find(ANN, files)) <= {b"one", b"two", None}

    threads = [threading.Thread(target=work, args=(schema,)) for schema in (b"one", b"two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < cache.size_bytes <= 50_000
