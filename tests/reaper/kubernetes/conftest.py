"""Real reaper processes on a real Kubernetes API, with only the rights that they need.

A gateway in these tests is a lease that the test renews. The lease is so long that no live gateway loses it on a busy
machine. A test that needs a lost gateway without the wait stops its lease.
"""

import json
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import CoordinationV1Api, CustomObjectsApi, EventsV1Api

from tests.cluster.cluster import Cluster
from tests.cluster.pauses import paused_between_directories
from tests.cluster.processes import DIES_WITH_PARENT, REQUEST_SECONDS, START_SECONDS, wait_until
from tests.fixture_types import WaitUntil
from tests.reaper.sessions import TABLE, create_location, create_record
from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.kubernetes.connect_session_objects import API_VERSION, GROUP, PLURAL, object_name
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.leases import KubernetesLeases, PodIdentity
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.record_store import StoredRecord

CRD = Path(__file__).parents[3] / "helm" / "lodge" / "crds" / "connectsessions.yaml"
INSTANCE = "lodge"
RENEWAL_SECONDS = 1.0

RIGHTS: Sequence[Mapping[str, Sequence[str]]] = [
    {
        "apiGroups": [GROUP],
        "resources": ["connectsessions"],
        "verbs": ["get", "list", "watch", "patch", "delete"],
    },
    {"apiGroups": [GROUP], "resources": ["connectsessions/status"], "verbs": ["patch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update", "delete"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
]
"""The rights of ``lodge reap`` in its namespace."""

RIGHTS_EVERYWHERE: Sequence[Mapping[str, Sequence[str]]] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
]


class Gateway:
    """A gateway replica that only renews its lease."""

    def __init__(self, connection: Connection, replica: str, pod: PodIdentity | None) -> None:
        self.replica = ReplicaId(replica)
        self._leases = KubernetesLeases(connection, pod)
        self._dies = threading.Event()
        self.may_renew = threading.Event()
        self.may_renew.set()
        self._leases.renew(self.replica)
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def die(self) -> None:
        """Renew the lease for the last time."""
        self._dies.set()
        self._thread.join()
        self._leases.renew(self.replica)

    def stop(self) -> None:
        """Stop the lease, so that it is lost at once."""
        self._dies.set()
        self._thread.join()
        self._leases.stop(self.replica)

    def _renew(self) -> None:
        while not self._dies.wait(RENEWAL_SECONDS):
            if not self.may_renew.is_set():
                continue
            try:
                self._leases.renew(self.replica)
            except Exception:  # noqa: BLE001, S112 - the API server may be down
                continue


@dataclass
class ReaperProcess:
    """A running ``lodge reap``."""

    process: "subprocess.Popen[bytes]" = field(repr=False)
    log_file: Path

    def log(self) -> list[dict[str, Any]]:
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.log() if line["event"] == name]

    def has_logged(self, name: str) -> bool:
        return bool(self.events(name))

    def leads(self) -> bool:
        changes = [line["event"] for line in self.log() if line["event"] in {"leadership_acquired", "leadership_lost"}]
        return changes[-1:] == ["leadership_acquired"]

    def get(self, path: str) -> tuple[int, str]:
        address = self.events("reaper_metrics_served")[0]["address"]
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def passes(self) -> int:
        """Return the number of complete passes."""
        (count,) = re.findall(r"^lodge_reaper_pass_seconds_count (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return int(float(count))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """Stop the process so that it hands over."""
        self.process.terminate()
        assert self.process.wait(60) == 0

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(30)


@dataclass
class KubernetesWorld:
    """A namespace with session records, a workspace on disk, gateways and reapers."""

    cluster: Cluster
    namespace: str
    directory: Path
    lease_seconds: float = 30.0
    grace_seconds: float = 1.0
    sees_nodes: bool = True
    started: list[ReaperProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.directory / "tmp"
        self.root.mkdir()
        self.connection = connect(self.cluster.kubeconfig, self.namespace, INSTANCE)
        self.records = KubernetesSessionRecords(self.connection)
        self.leases = KubernetesLeases(self.connection)
        self.root_ids = KubernetesRootIds(self.connection)
        self.locations = FileSessionLocations(self.root, root_ids=self.root_ids)
        self.locations.initialise()
        self.account = self.cluster.service_account(self.namespace, "reaper")
        self.account.allow(*RIGHTS)
        if self.sees_nodes:
            self.account.allow_everywhere(*RIGHTS_EVERYWHERE)

    def start_reaper(self, *options: str) -> ReaperProcess:
        log = self.directory / f"reaper-{len(self.started)}.log"
        command = [
            *DIES_WITH_PARENT,
            sys.executable,
            "-m",
            "lodge",
            "reap",
            "--records=kubernetes",
            f"--kubeconfig={self.account.kubeconfig}",
            f"--namespace={self.namespace}",
            f"--instance={INSTANCE}",
            f"--workspace=dfs.tmp={self.root.as_uri()}",
            f"--lease-duration={self.lease_seconds}s",
            f"--grace-period={self.grace_seconds}s",
            "--metrics-listen=127.0.0.1:0",
            "--log-level=debug",
            *options,
        ]
        with log.open("wb") as errors:
            reaper = ReaperProcess(subprocess.Popen(command, stderr=errors, cwd=self.directory), log)
        self.started.append(reaper)
        wait_until(lambda: reaper.has_logged("reaper_metrics_served"), "the reaper has started", START_SECONDS)
        return reaper

    def start_gateway(self, replica: str, pod: PodIdentity | None = None) -> Gateway:
        return Gateway(self.connection, replica, pod)

    def start_session(self, *holders: str, backend: str = "sc://127.0.0.1:1") -> StoredRecord:
        """Start a session with a location; nothing renews the leases of its holders."""
        stored = create_record(self.records, *holders, backend=backend)
        self.make_location(stored.record.session_uuid)
        return stored

    def make_location(self, session_uuid: SessionUuid) -> Path:
        return create_location(self.locations, session_uuid)

    def object(self, stored: StoredRecord) -> dict[str, Any] | None:
        api = CustomObjectsApi(self.cluster.client)
        found = api.list_namespaced_custom_object(GROUP, API_VERSION, self.namespace, PLURAL)["items"]
        name = object_name(INSTANCE, stored.record.name)
        return next((one for one in found if one["metadata"]["name"] == name), None)

    def conditions(self, stored: StoredRecord) -> dict[str, tuple[str, str]]:
        """Return status and reason of each condition, by type."""
        found = self.object(stored) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return {one["type"]: (one["status"], one["reason"]) for one in conditions}

    def message(self, stored: StoredRecord, kind: str) -> str:
        """Return the message of a condition; empty if there is none."""
        conditions = (self.object(stored) or {}).get("status", {}).get("conditions", [])
        return next((one["message"] for one in conditions if one["type"] == kind), "")

    def owned_sessions(self) -> int:
        """Return the number of sessions whose condition ``Owned`` is true."""
        api = CustomObjectsApi(self.cluster.client)
        found = api.list_namespaced_custom_object(GROUP, API_VERSION, self.namespace, PLURAL)["items"]
        conditions = [one for each in found for one in each.get("status", {}).get("conditions", [])]
        return sum(one["type"] == "Owned" and one["status"] == "True" for one in conditions)

    def ask_to_delete(self, stored: StoredRecord) -> None:
        """Delete the object as ``kubectl delete connectsession`` does, without waiting."""
        name = object_name(INSTANCE, stored.record.name)
        CustomObjectsApi(self.cluster.client).delete_namespaced_custom_object(
            GROUP, API_VERSION, self.namespace, PLURAL, name
        )

    def is_there(self, stored: StoredRecord) -> bool:
        """Return whether the session has its record and its location; fail if it has only one of them for long."""
        has_location = (self.locations.path(stored.record.session_uuid) / TABLE / "data").exists()
        return has_location and self.object(stored) is not None

    def is_gone(self, stored: StoredRecord) -> bool:
        location = self.locations.path(stored.record.session_uuid)
        return not location.exists() and self.object(stored) is None

    def notes(self, reason: str) -> list[tuple[str, str]]:
        """Return the name of the object and the note of each Event."""
        events = EventsV1Api(self.cluster.client).list_namespaced_event(self.namespace).items
        return [(event.regarding.name, event.note) for event in events if event.reason == reason]

    def leader_lease(self) -> Any:
        return CoordinationV1Api(self.cluster.client).read_namespaced_lease(f"{INSTANCE}-reaper", self.namespace)

    def annotate_leader_lease(self, key: str, value: str) -> None:
        CoordinationV1Api(self.cluster.client).patch_namespaced_lease(
            f"{INSTANCE}-reaper", self.namespace, {"metadata": {"annotations": {key: value}}}
        )

    def end(self) -> None:
        for reaper in self.started:
            reaper.end()
        api = CustomObjectsApi(self.cluster.client)
        for found in api.list_namespaced_custom_object(GROUP, API_VERSION, self.namespace, PLURAL)["items"]:
            api.patch_namespaced_custom_object(
                GROUP, API_VERSION, self.namespace, PLURAL, found["metadata"]["name"], {"metadata": {"finalizers": []}}
            )


@pytest.fixture(name="wait_until", scope="session")
def wait_until_fixture() -> WaitUntil:
    """Return a function that asks less often than that of other tests, because most questions are requests."""

    def wait(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
        wait_until(condition, what, seconds, REQUEST_SECONDS)

    return wait


@pytest.fixture(scope="module")
def cluster_with_sessions(cluster: Cluster) -> Cluster:
    """The shared cluster with the ConnectSession CRD."""
    cluster.apply(list(yaml.safe_load_all(CRD.read_text())))
    return cluster


@pytest.fixture
def new_world(
    cluster_with_sessions: Cluster, namespace: str, tmp_path: Path
) -> Iterator[Callable[..., KubernetesWorld]]:
    """Return a function that creates a world with its own durations and rights."""
    yield from _worlds(cluster_with_sessions, namespace, tmp_path)


@pytest.fixture(scope="session")
def own_cluster(cluster_programs: None) -> Iterator[Cluster]:
    """A cluster of its own whose API server may stop: the controllers of the shared one would need long to recover."""
    with paused_between_directories("own_cluster", Cluster()) as cluster:
        cluster.apply(list(yaml.safe_load_all(CRD.read_text())))
        yield cluster


@pytest.fixture
def new_own_world(own_cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., KubernetesWorld]]:
    """Return a function like ``new_world``, for a cluster whose API server may stop."""
    yield from _worlds(own_cluster, own_cluster.namespace(), tmp_path)


def _worlds(cluster: Cluster, namespace: str, directory: Path) -> Iterator[Callable[..., KubernetesWorld]]:
    made: list[KubernetesWorld] = []

    def make(**parts: Any) -> KubernetesWorld:
        made.append(KubernetesWorld(cluster, namespace, directory, **parts))
        return made[-1]

    yield make
    for world in made:
        world.end()
