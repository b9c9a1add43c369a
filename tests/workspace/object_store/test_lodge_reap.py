"""``lodge reap`` with records on a real Kubernetes API and session locations in a real S3 server."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.fixture_types import WaitUntil
from tests.reaper.kubernetes.conftest import CRD, TABLE, KubernetesWorld
from tests.workspace.object_store.servers import BUCKET, Server
from tests.workspace.object_store.storages import Objects
from workspace.identifiers import SessionUuid
from workspace.record_store import StoredRecord


class WorldInAnObjectStore(KubernetesWorld):
    def __init__(self, cluster: Cluster, namespace: str, directory: Path, storage: Objects) -> None:
        self.storage = storage
        super().__init__(cluster, namespace, directory)
        self.locations = storage.opened(self.root_ids)  # type: ignore[assignment]
        self.root = SimpleNamespace(as_uri=lambda: storage.address.uri)  # type: ignore[assignment]

    def make_location(self, session_uuid: SessionUuid) -> Path:
        self.locations.create(session_uuid)
        self.storage.write(f"{session_uuid}/{TABLE}/data")
        return Path()

    def is_there(self, stored: StoredRecord) -> bool:
        return f"{stored.record.session_uuid}/{TABLE}/data" in self.storage.files() and self.object(stored) is not None

    def is_gone(self, stored: StoredRecord) -> bool:
        return not self.storage.keys(stored.record.session_uuid) and self.object(stored) is None


@pytest.fixture
def world(cluster: Cluster, namespace: str, server: Server, tmp_path: Path) -> Iterator[WorldInAnObjectStore]:
    cluster.apply(list(yaml.safe_load_all(CRD.read_text())))
    world = WorldInAnObjectStore(cluster, namespace, tmp_path, Objects(server.raw, BUCKET))
    yield world
    world.end()


@pytest.mark.slow
def test_reaper_removes_dead_sessions_keeps_live_ones_and_reports(
    world: WorldInAnObjectStore, wait_until: WaitUntil
) -> None:
    alive, dead = world.start_gateway("alive"), world.start_gateway("dead")
    kept, stored = world.start_session("alive"), world.start_session("dead")
    orphan = SessionUuid(str(uuid.uuid4()))
    reaper = world.start_reaper()
    wait_until(lambda: world.conditions(stored).get("Owned") == ("True", "Held"), "the reaper works")
    dead.stop()
    world.make_location(orphan)
    wait_until(lambda: world.is_gone(stored), "the dead session is gone")
    place = f"{world.storage.address.storage_path}/{stored.record.session_uuid}"
    note = f"Deleted session temporary location [{place}] from file system [s3://{BUCKET}]"
    wait_until(lambda: (f"lodge-{stored.record.name}", note) in world.notes("LocationDeleted"), "an Event tells of it")
    wait_until(lambda: not world.storage.keys(orphan), "the orphan is gone")
    wait_until(lambda: not world.locations.trash(), "the trash is empty")
    assert world.is_there(kept)
    assert world.storage.raw.secret_key not in reaper.log_file.read_text()
    alive.die()


@pytest.mark.slow
def test_reaper_deletes_nothing_while_the_store_is_away_or_emptied(
    world: WorldInAnObjectStore, server: Server, wait_until: WaitUntil
) -> None:
    gateway = world.start_gateway("gone")
    stored = world.start_session("gone")
    reaper = world.start_reaper()

    def is_told(reason: str) -> bool:
        return any(reason in event["reason"] for event in reaper.events("reaper_held_back"))

    wait_until(lambda: world.conditions(stored).get("Owned") == ("True", "Held"), "the reaper works")
    server.process.kill()
    gateway.stop()
    wait_until(lambda: is_told("cannot be reached"), "the reaper holds back", 60)
    assert world.object(stored) is not None
    server.process.start()
    world.storage.unmount()
    wait_until(lambda: is_told("does not contain the storage that Lodge used before"), "the reaper holds back", 60)
    assert world.object(stored) is not None
    world.storage.mount()
    wait_until(lambda: world.is_gone(stored), "the dead session is gone", 60)
