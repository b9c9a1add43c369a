"""The storage of these tests fails as intended, and returns unchanged."""

import errno
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count, takewhile
from threading import Event

import pytest

from tests.chaos.storage import Storage
from tests.skips import skip_missing

pytestmark = pytest.mark.needs_root


@pytest.fixture
def storage(tmp_path):
    with Storage(tmp_path, size="1m") as storage:
        (storage.root / "kept").write_text("data")
        yield storage
        assert (storage.root / "kept").read_text() == "data"
        (storage.root / "new").write_text("more")


def test_full_storage_accepts_no_byte(storage):
    with storage.full(), pytest.raises(OSError) as raised:
        (storage.root / "more").write_text("data")
    assert raised.value.errno == errno.ENOSPC


def test_read_only_storage_accepts_no_change(storage):
    with storage.read_only(), pytest.raises(OSError) as raised:
        (storage.root / "kept").unlink()
    assert raised.value.errno == errno.EROFS


def test_storage_becomes_read_only_despite_constant_writers(storage):
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
            assert writing.result(60) == errno.EROFS


def test_storage_is_read_only_for_others_while_a_file_stays_open(storage):
    with (storage.root / "open").open("w"), storage.read_only(), pytest.raises(OSError) as raised:
        (storage.root / "kept").unlink()
    assert raised.value.errno == errno.EROFS


def test_absent_storage_leaves_writable_empty_directory(storage):
    with storage.gone():
        assert list(storage.root.iterdir()) == []
        (storage.root / "elsewhere").mkdir()
    assert not (storage.root / "elsewhere").exists()


def test_empty_storage_has_same_directories_and_is_writable(storage):
    (storage.root / "workspace" / "inside").mkdir(parents=True)
    with storage.empty():
        assert [path.name for path in storage.root.rglob("*")] == ["workspace"]
        (storage.root / "workspace" / "elsewhere").mkdir()
    assert [path.name for path in (storage.root / "workspace").iterdir()] == ["inside"]


def test_hung_storage_hangs_until_it_fails(storage):
    if not storage.can_hang:
        skip_missing("The kernel has no FUSE. Load the module fuse.")
    listing = [*storage.prefix, "ls", str(storage.path)]
    with storage.hung():
        process = subprocess.Popen(listing, stderr=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
    assert process.wait(60) != 0
    assert subprocess.run(listing, check=False).returncode == 0


def test_storage_is_mounted_only_for_its_processes(storage):
    assert list(storage.path.iterdir()) == []
