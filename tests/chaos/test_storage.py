"""The storage of these tests fails as it should, and comes back as it was."""

import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count, takewhile
from threading import Event

import pytest

from tests.chaos.storage import Storage

pytestmark = pytest.mark.needs_root


@pytest.fixture
def storage(tmp_path):
    with Storage(tmp_path, size="1m") as storage:
        (storage.root / "kept").write_text("data")
        yield storage
        assert (storage.root / "kept").read_text() == "data"
        (storage.root / "new").write_text("more")


def test_a_full_storage_takes_no_byte(storage):
    with storage.full(), pytest.raises(OSError) as raised:
        (storage.root / "more").write_text("data")
    assert raised.value.errno == errno.ENOSPC


def test_a_read_only_storage_takes_no_change(storage):
    with storage.read_only(), pytest.raises(OSError) as raised:
        (storage.root / "kept").unlink()
    assert raised.value.errno == errno.EROFS


def test_a_storage_in_which_some_file_is_always_open_for_writing_becomes_read_only(storage):
    is_over = Event()

    def write() -> int | None:
        try:
            with ExitStack() as last:
                for number in takewhile(lambda _: not is_over.is_set(), count()):
                    file = (storage.root / f"written-{number % 2}").open("w")
                    last.pop_all().close()
                    last.enter_context(file)
        except OSError as error:
            return error.errno

    with ThreadPoolExecutor() as pool, ExitStack() as end:
        end.callback(is_over.set)
        writing = pool.submit(write)
        with storage.read_only():
            assert writing.result(10) == errno.EROFS


def test_a_storage_that_is_gone_leaves_an_empty_directory_that_takes_changes(storage):
    with storage.gone():
        assert list(storage.root.iterdir()) == []
        (storage.root / "elsewhere").mkdir()
    assert not (storage.root / "elsewhere").exists()


def test_an_empty_storage_has_the_same_directories_and_takes_changes(storage):
    (storage.root / "workspace" / "inside").mkdir(parents=True)
    with storage.empty():
        assert [path.name for path in storage.root.rglob("*")] == ["workspace"]
        (storage.root / "workspace" / "elsewhere").mkdir()
    assert [path.name for path in (storage.root / "workspace").iterdir()] == ["inside"]


def test_nothing_of_it_is_mounted_for_others(storage):
    assert list(storage.path.iterdir()) == []
