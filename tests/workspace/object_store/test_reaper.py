"""The reaper with session locations on a real S3 server."""

from pathlib import Path

import pytest

from tests.reaper.conftest import GRACE_SECONDS, LEASE_SECONDS, TABLE, World
from tests.workspace.in_memory_root_ids import InMemoryRootIds
from tests.workspace.object_store.servers import BUCKET, Server
from tests.workspace.object_store.storages import Objects
from workspace.identifiers import SessionUuid
from workspace.object_store.bucket import Bucket
from workspace.object_store.session_locations import ObjectSessionLocations
from workspace.record_store import StoredRecord

ORPHAN = SessionUuid("00000000-0000-4000-8000-00000000000f")
LONG_SECONDS = 2 * (LEASE_SECONDS + GRACE_SECONDS)


class WorldInAnObjectStore(World):
    """A world with records and leases in files, because they are never in the object store."""

    def __init__(self, directory: Path, storage: Objects) -> None:
        self.storage = storage
        super().__init__(directory)
        store = Bucket(storage.address)
        in_store = ObjectSessionLocations(storage.address, InMemoryRootIds(), bucket=store, relist_seconds=0)
        in_store.initialise()
        self.locations = in_store  # type: ignore[assignment]
        self.reaper = self.new_reaper(locations=in_store)

    def make_location(self, session_uuid: SessionUuid) -> Path:
        self.locations.create(session_uuid)
        self.storage.write(f"{session_uuid}/{TABLE}/data")
        return Path()

    def is_there(self, stored: StoredRecord) -> bool:
        return f"{stored.record.session_uuid}/{TABLE}/data" in self.storage.files()


@pytest.fixture
def world(server: Server, tmp_path: Path) -> WorldInAnObjectStore:
    return WorldInAnObjectStore(tmp_path / "records", Objects(server.raw, BUCKET))


def test_reaper_removes_dead_sessions_and_keeps_live_ones(world: WorldInAnObjectStore) -> None:
    alive, dead = world.start_session("a"), world.start_session("b")
    world.make_location(ORPHAN)
    world.storage.write(f"{alive.record.session_uuid}/{ORPHAN}/half-written")
    world.passes(LONG_SECONDS, "a")
    assert world.is_there(alive)
    assert world.storage.files() == {f"{alive.record.session_uuid}/{TABLE}/data": b"data"}
    assert world.locations.list() == {alive.record.session_uuid}
    assert [stored.record for stored in world.records.list()] == [alive.record]
    assert dead.record.session_uuid not in {each.split(".")[0] for each in world.locations.trash()}


def test_objects_of_a_late_task_in_a_removed_location_are_deleted(world: WorldInAnObjectStore) -> None:
    dead = world.start_session("b")
    world.passes(LONG_SECONDS)
    for _ in range(2):
        world.storage.write(f"{dead.record.session_uuid}/{TABLE}/_temporary/0/late")
        world.passes(LONG_SECONDS)
        assert not world.storage.files()
    assert not world.locations.list()
    assert not world.locations.trash()


def test_reaper_waits_while_the_store_does_not_answer(world: WorldInAnObjectStore, server: Server) -> None:
    alive, dead = world.start_session("a"), world.start_session("b")
    server.process.kill()
    summaries = world.passes(3, "a")
    assert all("cannot be reached" in (summary.held_back or "") for summary in summaries)
    assert len(world.records.list()) == 2
    server.process.start()
    assert world.is_there(dead)
    world.passes(LONG_SECONDS, "a")
    assert world.is_there(alive)
    assert not world.is_there(dead)


@pytest.mark.parametrize("is_foreign", [False, True])
def test_reaper_deletes_nothing_in_an_emptied_or_foreign_bucket(
    world: WorldInAnObjectStore, *, is_foreign: bool
) -> None:
    dead = world.start_session("b")
    world.storage.unmount()
    if is_foreign:
        world.storage.opened().create(ORPHAN)
        world.storage.write(f"{ORPHAN}/{TABLE}/data")
    summaries = world.passes(LONG_SECONDS)
    assert all(
        "does not contain the storage that Lodge used before" in (summary.held_back or "") for summary in summaries
    )
    assert len(world.storage.files()) == int(is_foreign)
    assert len(world.records.list()) == 1
    world.storage.mount()
    assert world.is_there(dead)
    world.passes(LONG_SECONDS)
    assert not world.storage.files()
    assert not world.records.list()
