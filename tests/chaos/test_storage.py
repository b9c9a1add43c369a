"""The storage of these tests fails as it should, and comes back as it was."""

import errno

import pytest

from tests.chaos.storage import Storage


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


@pytest.mark.parametrize("fault", [Storage.gone, Storage.empty])
def test_a_storage_that_is_away_leaves_a_directory_that_takes_changes(storage, fault):
    with fault(storage):
        assert list(storage.root.iterdir()) == []
        (storage.root / "elsewhere").mkdir()
    assert not (storage.root / "elsewhere").exists()


def test_nothing_of_it_is_mounted_for_others(storage):
    assert list(storage.path.iterdir()) == []
