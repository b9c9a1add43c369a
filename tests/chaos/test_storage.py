"""The storage of these tests fails as it should, and comes back as it was."""

import errno

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
