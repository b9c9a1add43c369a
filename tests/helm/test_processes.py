"""A session's life under the chart's own configuration, variables and rights, with real gateways and a real reaper.

What they ask of the API server is compared with what the chart grants: nothing may be missing, and nothing needless.
"""

import http.client
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kubernetes.client import CoordinationV1Api, CustomObjectsApi, V1Pod, V1Probe
from pyspark.sql import SparkSession

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.helm.audit import AuditLog, granted
from tests.helm.chart import Helm, Values, of_kind
from tests.helm.pods import PodProcess
from tests.helm.releases import CLAIM, Releases
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.records import ClientSessionId, Phase, Principal, RecordConflictError, SessionRecord, SessionUuid

SECONDS = 60.0
READY = re.compile(r"Lodge is ready at sc://(\S+)")
SERVED = re.compile(r'"address": "([^"]+)", "event": "reaper_metrics_served"')
NOTE = re.compile(r"Deleted session temporary location \[\S+\] from file system \[\S+\]")
COMPONENTS = ("gateway", "reaper")


class Site:
    """A release with a workspace on this machine's disk, and what happens in it."""

    def __init__(self, releases: Releases, directory: Path, backend: str) -> None:
        self.releases = releases
        self.workspace = directory / "workspace"
        self.workspace.mkdir()
        self.values: Values = {
            "backend": {"addresses": [backend]},
            "workspaces": {"dfs.tmp": self.workspace.as_uri()},
            "volume": {"existingClaim": CLAIM, "mountPath": str(self.workspace)},
            "config": {"lease_duration": "3s", "grace_period": "3s", "max_principal_tables": 10},
        }
        releases.install(values=self.values)
        self.config = directory / "lodge.yaml"
        self.config.write_text(releases.configuration_file())
        self.accounts = {name: self._account(name) for name in COMPONENTS}
        self._directory = directory
        self._starts = count(1)
        client = releases.cluster.client
        self._objects, self._leases = CustomObjectsApi(client), CoordinationV1Api(client)

    def gateway(self, pod: V1Pod) -> PodProcess:
        return self._process("gateway", pod, lambda log: READY.search(log) is not None)

    def reaper(self, pod: V1Pod) -> PodProcess:
        return self._process("reaper", pod, lambda log: SERVED.search(log) is not None)

    def sessions(self) -> list[dict[str, Any]]:
        found: dict[str, Any] = self._objects.list_namespaced_custom_object(*self._place)
        return list(found["items"])

    def delete_session(self) -> None:
        """As `kubectl delete connectsession` does."""
        (session,) = self.sessions()
        self._objects.delete_namespaced_custom_object(*self._place, session["metadata"]["name"])

    def locations(self) -> list[Path]:
        return [path for path in self.workspace.iterdir() if path.name != ".lodge"]

    def leases(self) -> Mapping[str, str]:
        """Who holds each."""
        found = self._leases.list_namespaced_lease(self.releases.namespace).items
        return {lease.metadata.name: lease.spec.holder_identity or "" for lease in found}

    def notes(self) -> list[str]:
        """Of the Events on sessions."""
        found = self.releases.core.list_namespaced_event(self.releases.namespace).items
        return [event.message for event in found if event.involved_object.kind == "ConnectSession"]

    def connection(self, account: str, instance: str = "lodge") -> Connection:
        return connect(self.accounts[account].kubeconfig, None, instance)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, SECONDS)

    def wait_until_nothing_is_left(self) -> None:
        self.wait(lambda: not self.sessions(), f"no session is left, but {[each['spec'] for each in self.sessions()]}")
        self.wait(lambda: not self.locations(), f"no location is left, but {self.locations()}")

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return "sparklodge.io", "v1alpha1", self.releases.namespace, "connectsessions"

    def _process(self, component: str, pod: V1Pod, is_ready: Callable[[str], bool]) -> PodProcess:
        log = self._directory / f"{pod.metadata.name}-{next(self._starts)}.log"
        anywhere = {"LODGE_LISTEN": "127.0.0.1:0", "LODGE_METRICS_LISTEN": "127.0.0.1:0"}
        return PodProcess(pod, self.accounts[component], self.config, log=log, more=anywhere, is_ready=is_ready)

    def _account(self, component: str) -> ServiceAccount:
        (name,) = {pod.spec.service_account_name for pod in self.releases.pods(component)}
        return self.releases.cluster.service_account(self.releases.namespace, name)


@pytest.fixture(scope="module")
def site(
    chart_cluster: Cluster, chart_programs: None, spark_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Site:
    directory = tmp_path_factory.mktemp("site")
    return Site(Releases(chart_cluster, directory), directory, spark_server)


@pytest.fixture(scope="module")
def reaper(site: Site) -> Iterator[PodProcess]:
    process = site.reaper(site.releases.pods("reaper")[0])
    process.start()
    yield process
    process.kill()


def test_a_session_lives_and_ends(site: Site, reaper: PodProcess) -> None:
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        assert client.table("t").collect() == [(1,)]
        (session,) = site.sessions()
        assert session["spec"]["summary"]["tables"] == 1
        assert session["metadata"]["finalizers"] == ["sparklodge.io/session-location"]
        (location,) = site.locations()
        assert location.name == session["spec"]["sessionUuid"]
        site.wait(lambda: site.sessions()[0].get("status"), "the reaper tells how the session is")
        client.stop()
        site.wait_until_nothing_is_left()


def test_a_session_ends_when_its_object_is_deleted(site: Site, reaper: PodProcess) -> None:
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        site.delete_session()
        site.wait_until_nothing_is_left()


def test_a_session_ends_so_without_a_gateway_too(site: Site, reaper: PodProcess) -> None:
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        assert gateway.stop() == 0
    assert len(site.sessions()) == len(site.locations()) == 1
    site.delete_session()
    site.wait_until_nothing_is_left()


def test_what_a_dead_gateway_left_is_removed(site: Site, reaper: PodProcess) -> None:
    pod = site.releases.pods("gateway")[0]
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        gateway.kill()
        site.releases.core.delete_namespaced_pod(pod.metadata.name, site.releases.namespace, grace_period_seconds=0)
        site.wait_until_nothing_is_left()
    assert any(NOTE.fullmatch(note) for note in site.notes()), site.notes()
    site.wait(lambda: set(site.leases()) == {"lodge-reaper"}, "the dead gateway's lease is gone")


def test_a_gateway_that_is_stopped_takes_its_lease_with_it(site: Site, reaper: PodProcess) -> None:
    with _gateway(site, 1) as gateway:
        assert _health(gateway) == health_pb2.HealthCheckResponse.SERVING
        assert len(site.leases()) == 2
        assert gateway.stop() == 0
    assert set(site.leases()) == {"lodge-reaper"}


def test_a_reaper_that_is_stopped_hands_over(site: Site, reaper: PodProcess) -> None:
    pod = site.releases.pods("reaper")[1]
    waiting = site.reaper(pod)
    waiting.start()
    try:
        assert _probed(waiting, pod.spec.containers[0].liveness_probe)
        site.wait(lambda: _probed(waiting, pod.spec.containers[0].readiness_probe), "a reaper that waits is ready")
        first = site.leases()["lodge-reaper"]
        assert reaper.stop() == 0
        site.wait(lambda: site.leases()["lodge-reaper"] not in {"", first}, "the other reaper leads")
        assert waiting.stop() == 0
    finally:
        waiting.kill()


def test_what_happens_rarely_is_allowed_too(site: Site) -> None:
    """What takes two at the same instant, or a new storage: the same code, with the same accounts."""
    for name in COMPONENTS:
        site.releases.core.delete_collection_namespaced_config_map(
            site.releases.namespace, label_selector="app.kubernetes.io/managed-by=lodge"
        )
        roots = KubernetesRootIds(site.connection(name))
        assert [roots.record(f"file:///{root}", root) for root in ("first", "second")] == ["first", "second"]
    KubernetesLeases(site.connection("gateway")).list()
    begun = KubernetesSessionRecords(site.connection("gateway", "other")).create(_record())
    records = KubernetesSessionRecords(site.connection("reaper", "other"))  # which the reaper that runs leaves alone
    ending = records.replace(replace(begun.record, phase=Phase.ENDING), begun.version)
    with pytest.raises(RecordConflictError):
        records.replace(begun.record, begun.version)
    records.delete(ending.record.name, ending.version)


def test_no_right_is_missing(site: Site, audit_log: AuditLog) -> None:
    for component in COMPONENTS:
        requests = audit_log.requests(site.releases.namespace, f"lodge-{component}")
        assert requests
        assert not {str(request.right) for request in requests if request.is_forbidden}


def test_no_right_is_needless(site: Site, helm: Helm, audit_log: AuditLog) -> None:
    """Counts what the tests above did, so it needs all of them."""
    manifests = helm.template(site.values, namespace=site.releases.namespace)
    roles = (*of_kind(manifests, "Role"), *of_kind(manifests, "ClusterRole"))
    for component in COMPONENTS:
        own = [role for role in roles if role["metadata"]["labels"]["app.kubernetes.io/component"] == component]
        requests = audit_log.requests(site.releases.namespace, f"lodge-{component}")
        used = {right for request in requests for right in request.rights()}
        needless = {right for right in granted(own) if not any(right.covers(use) for use in used)}
        assert not sorted(map(str, needless)), f"{component} never needed these in the tests above"


@contextmanager
def _gateway(site: Site, number: int) -> Iterator[PodProcess]:
    """The process of one of the gateway's pods."""
    process = site.gateway(site.releases.pods("gateway")[number])
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _health(gateway: PodProcess) -> int:
    """As the kubelet asks with a probe of the kind grpc."""
    with grpc.insecure_channel(_address(gateway)) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    return int(answer.status)


def _probed(reaper: PodProcess, probe: V1Probe) -> bool:
    """As the kubelet asks with a probe of the kind httpGet."""
    served = SERVED.search(reaper.log.read_text())
    assert served is not None
    connection = http.client.HTTPConnection(served[1], timeout=SECONDS)
    connection.request("GET", probe.http_get.path)
    return connection.getresponse().status == http.HTTPStatus.OK


@contextmanager
def _client(gateway: PodProcess) -> Iterator[SparkSession]:
    """A client with a session; it does not wait for a gateway that is gone when it ends."""
    session = SparkSession.builder.remote(f"sc://{_address(gateway)}").create()
    try:
        yield session
    finally:
        session.client.close()


def _address(gateway: PodProcess) -> str:
    ready = READY.search(gateway.log.read_text())
    assert ready is not None
    return ready[1]


def _record() -> SessionRecord:
    return SessionRecord(
        session_uuid=SessionUuid("00000000-0000-4000-8000-000000000001"),
        principal=Principal("ann"),
        client_session_id=ClientSessionId("00000000-0000-4000-8000-000000000002"),
        backend="sc://127.0.0.1:1",
        phase=Phase.ACTIVE,
        created_at="2026-01-01T00:00:00+00:00",
    )
