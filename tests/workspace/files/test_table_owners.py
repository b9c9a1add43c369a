"""The owners of permanent tables."""

import resource
import stat
import uuid

import pytest

from workspace.files.layout import Layout
from workspace.files.session_locations import FileSessionLocations
from workspace.files.table_owners import TableOwners
from workspace.identifiers import Principal
from workspace.table_owners import TableOwner

OWNER = TableOwner(Principal("ada ✓"), ("data",), "dfs", "t")


@pytest.fixture
def root(tmp_path):
    FileSessionLocations(tmp_path).initialise()
    return tmp_path


def test_owner_is_found_by_id_and_table(root):
    owner_id = str(uuid.uuid4())
    owners = TableOwners(root)
    owners.write(owner_id, OWNER)
    assert owners.read(owner_id, "dfs", "t") == OWNER
    assert owners.read(owner_id, "dfs", "copy") is None
    assert owners.read(str(uuid.uuid4()), "dfs", "t") is None
    owners.remove(owner_id)
    owners.remove(owner_id)
    assert owners.read(owner_id, "dfs", "t") is None


def test_owner_is_private_and_never_replaced(root):
    owner_id = str(uuid.uuid4())
    TableOwners(root).write(owner_id, OWNER)
    directory = Layout(root).table_owners
    modes = [stat.filemode(path.stat().st_mode) for path in (directory, *directory.iterdir())]
    assert modes == ["drwx------", "-rw-------"]
    with pytest.raises(FileExistsError):
        TableOwners(root).write(owner_id, OWNER)


@pytest.mark.parametrize("owner_id", ["", "..", "../root", "A" * 36])
def test_id_that_is_not_a_uuid_has_no_owner(root, owner_id):
    assert TableOwners(root).read(owner_id, "dfs", "t") is None
    TableOwners(root).remove(owner_id)
    with pytest.raises(ValueError, match="UUID"):
        TableOwners(root).write(owner_id, OWNER)


def test_full_disk_leaves_no_file(root):
    TableOwners(root).write(str(uuid.uuid4()), OWNER)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            TableOwners(root).write(str(uuid.uuid4()), OWNER)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(list(Layout(root).table_owners.iterdir())) == 1


def test_damaged_file_has_no_owner(root):
    owner_id = str(uuid.uuid4())
    TableOwners(root).write(owner_id, OWNER)
    path = Layout(root).table_owners / f"{owner_id}.json"
    for damaged in (b"", b"[]", b'{"principal": "ada"}'):
        path.write_bytes(damaged)
        assert TableOwners(root).read(owner_id, "dfs", "t") is None


def test_owners_stay_in_home_after_workspace_moved(tmp_path):
    home, moved = tmp_path / "home", tmp_path / "moved"
    locations = FileSessionLocations(home)
    locations.initialise()
    owner_id = str(uuid.uuid4())
    TableOwners(home).write(owner_id, OWNER)
    locations.set_current_root(moved)
    assert TableOwners(moved).read(owner_id, "dfs", "t") == OWNER
