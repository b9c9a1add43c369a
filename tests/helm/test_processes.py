"""Sessions under the chart's own configuration, with real gateways and reapers.

The test compares their requests to the API server with the permissions that the chart grants. No permission may be
missing, and none may be unused.
"""

import http.client
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from tests.helm.audit import AuditLog, Permission, Request, list_permissions
from tests.helm.chart import Helm, Values, of_kind
from tests.helm.pods import PodProcess
from tests.helm.releases import CLAIM, Releases
from tests.records import a_record
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.record_store import RecordConflictError
from workspace.records import Phase

pytestmark = pytest.mark.slow

SECONDS = 60.0
READY = re.compile(r"Lodge is ready at sc://(\S+)")
SERVED = re.compile(r'"address": "([^"]+)", "event": "reaper_metrics_served"')
DELETION_MESSAGE = re.compile(r"Deleted session temporary location \[\S+\] from file system \[\S+\]")
STARTED = {"gateway": READY, "reaper": SERVED}
COMPONENTS = tuple(STARTED)
LODGE_SELECTOR = "app.kubernetes.io/managed-by=lodge"


class Site:
    """A release with a workspace on the local disk."""

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
        return self._process("gateway", pod)

    def reaper(self, pod: V1Pod) -> PodProcess:
        return self._process("reaper", pod)

    def on_new_storage(self, component: str) -> PodProcess:
        """Return a process whose workspace is a new directory."""
        directory = self._directory / f"storage-{next(self._starts)}"
        directory.mkdir()
        pod = self.releases.pods(component)[0]
        return self._process(component, pod, {"LODGE_WORKSPACE": f"dfs.tmp={directory.as_uri()}"})

    def sessions(self) -> list[dict[str, Any]]:
        found: dict[str, Any] = self._objects.list_namespaced_custom_object(*self._place)
        return list(found["items"])

    def delete_session(self) -> None:
        """Delete a session as `kubectl delete connectsession` does."""
        (session,) = self.sessions()
        self._objects.delete_namespaced_custom_object(*self._place, session["metadata"]["name"])

    def locations(self) -> list[Path]:
        return [path for path in self.workspace.iterdir() if path.name != ".lodge"]

    def leases(self) -> Mapping[str, str]:
        """Return the holder of each lease, by the name of the lease."""
        found = self._leases.list_namespaced_lease(self.releases.namespace).items
        return {lease.metadata.name: lease.spec.holder_identity or "" for lease in found}

    def event_messages(self) -> list[str]:
        """Return the messages of the Events about sessions."""
        found = self.releases.core.list_namespaced_event(self.releases.namespace).items
        return [event.message for event in found if event.involved_object.kind == "ConnectSession"]

    def roots(self) -> frozenset[str]:
        """Return the keys of all recorded root identities."""
        found = self.releases.core.list_namespaced_config_map(
            self.releases.namespace, label_selector=LODGE_SELECTOR
        ).items
        return frozenset(key for each in found for key in each.data)

    def delete_roots(self) -> None:
        self.releases.core.delete_collection_namespaced_config_map(
            self.releases.namespace, label_selector=LODGE_SELECTOR
        )

    def connection(self, account: str, instance: str = "lodge") -> Connection:
        return connect(self.accounts[account].kubeconfig, None, instance)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what, SECONDS)

    def wait_until_empty(self) -> None:
        self.wait(lambda: not self.sessions(), f"no session is left, but {[each['spec'] for each in self.sessions()]}")
        self.wait(lambda: not self.locations(), f"no location is left, but {self.locations()}")

    @property
    def _place(self) -> tuple[str, str, str, str]:
        return "sparklodge.io", "v1alpha1", self.releases.namespace, "connectsessions"

    def _process(self, component: str, pod: V1Pod, more: Mapping[str, str] | None = None) -> PodProcess:
        log = self._directory / f"{pod.metadata.name}-{next(self._starts)}.log"
        anywhere = {"LODGE_LISTEN": "127.0.0.1:0", "LODGE_METRICS_LISTEN": "127.0.0.1:0"}
        return PodProcess(
            pod,
            self.accounts[component],
            self.config,
            log=log,
            more=anywhere | dict(more or {}),
            is_ready=lambda text: STARTED[component].search(text) is not None,
        )

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
def scenario_requests(site: Site, audit_log: AuditLog) -> Mapping[str, Sequence[Request]]:
    """Run all scenarios once, and return the requests of each component's processes."""
    reaper = site.reaper(site.releases.pods("reaper")[0])
    reaper.start()
    try:
        _run_session(site)
        _delete_session_object(site)
        _delete_session_object_without_gateway(site)
        _kill_gateway(site)
        _stop_gateway(site)
        _stop_leading_reaper(site, reaper)
    finally:
        reaper.kill()
    _start_on_new_storage(site)
    return _requests(site, audit_log)


def test_no_permission_is_missing(scenario_requests: Mapping[str, Sequence[Request]]) -> None:
    for component in COMPONENTS:
        assert scenario_requests[component]
        assert not {str(request.permission) for request in scenario_requests[component] if request.is_forbidden}


def test_no_permission_is_unused(site: Site, scenario_requests: Mapping[str, Sequence[Request]], helm: Helm) -> None:
    manifests = helm.template(site.values, namespace=site.releases.namespace)
    roles = (*of_kind(manifests, "Role"), *of_kind(manifests, "ClusterRole"))
    for component in COMPONENTS:
        own = [role for role in roles if role["metadata"]["labels"]["app.kubernetes.io/component"] == component]
        used = {permission for request in scenario_requests[component] for permission in request.permissions()}
        used |= RARE[component]
        unused = {permission for permission in list_permissions(own) if not any(permission.covers(use) for use in used)}
        assert not sorted(map(str, unused)), f"{component} never needs these"


RARE = {
    "gateway": frozenset({Permission("list", "coordination.k8s.io", "leases")}),
    "reaper": frozenset({Permission("get", "sparklodge.io", "connectsessions")}),
}
"""Permissions for rare cases: a gateway that dies during a statement, and concurrent changes of a session."""


def test_rare_cases_use_these_permissions_and_have_them(
    site: Site, scenario_requests: Mapping[str, Sequence[Request]], audit_log: AuditLog
) -> None:
    """Run code of the processes with the same accounts.

    It runs last, because the requests before it count as needed.
    """
    KubernetesLeases(site.connection("gateway")).list()
    begun = KubernetesSessionRecords(site.connection("gateway", "other")).create(a_record(backend="sc://127.0.0.1:1"))
    records = KubernetesSessionRecords(site.connection("reaper", "other"))
    ending = records.replace(replace(begun.record, phase=Phase.ENDING), begun.version)
    with pytest.raises(RecordConflictError):
        records.replace(begun.record, begun.version)
    records.delete(ending.record.name, ending.version)
    for component, requests in _requests(site, audit_log).items():
        used = {
            permission
            for request in requests[len(scenario_requests[component]) :]
            for permission in request.permissions()
        }
        assert not {permission for permission in RARE[component] if not any(permission.covers(use) for use in used)}
        assert not [request for request in requests if request.is_forbidden]


def _run_session(site: Site) -> None:
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        assert client.table("t").collect() == [(1,)]
        (session,) = site.sessions()
        assert session["spec"]["summary"]["tables"] == 1
        assert session["metadata"]["finalizers"] == ["sparklodge.io/session-location"]
        (location,) = site.locations()
        assert location.name == session["spec"]["sessionUuid"]
        site.wait(lambda: site.sessions()[0].get("status"), "the reaper has written the status of the session")
        client.stop()
        site.wait_until_empty()


def _delete_session_object(site: Site) -> None:
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        site.delete_session()
        site.wait_until_empty()


def _delete_session_object_without_gateway(site: Site) -> None:
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        assert gateway.stop() == 0
    assert len(site.sessions()) == len(site.locations()) == 1
    site.delete_session()
    site.wait_until_empty()


def _kill_gateway(site: Site) -> None:
    pod = site.releases.pods("gateway")[0]
    with _gateway(site, 0) as gateway, _client(gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        gateway.kill()
        site.releases.core.delete_namespaced_pod(pod.metadata.name, site.releases.namespace, grace_period_seconds=0)
        site.wait_until_empty()
    site.wait(
        lambda: any(map(DELETION_MESSAGE.fullmatch, site.event_messages())),
        "the reaper reports the deletion as an Event",
    )
    site.wait(lambda: set(site.leases()) == {"lodge-reaper"}, "the dead gateway's lease is gone")


def _stop_gateway(site: Site) -> None:
    with _gateway(site, 1) as gateway:
        assert _check_health(gateway) == health_pb2.HealthCheckResponse.SERVING
        site.wait(lambda: len(site.leases()) == 2, "reaper and gateway have a lease")
        assert gateway.stop() == 0
    assert set(site.leases()) == {"lodge-reaper"}


def _stop_leading_reaper(site: Site, reaper: PodProcess) -> None:
    pod = site.releases.pods("reaper")[1]
    waiting = site.reaper(pod)
    waiting.start()
    try:
        assert _probe(waiting, pod.spec.containers[0].liveness_probe)
        site.wait(lambda: _probe(waiting, pod.spec.containers[0].readiness_probe), "a waiting reaper is ready")
        first = site.leases()["lodge-reaper"]
        assert reaper.stop() == 0
        site.wait(lambda: site.leases()["lodge-reaper"] not in {"", first}, "the other reaper leads")
        assert waiting.stop() == 0
    finally:
        waiting.kill()


def _start_on_new_storage(site: Site) -> None:
    """Start a gateway first. The earlier scenarios started a reaper first."""
    site.delete_roots()
    for component in ("gateway", "reaper", "gateway"):
        known = site.roots()
        process = site.on_new_storage(component)
        process.start()
        try:
            assert site.roots() > known
            assert process.stop() == 0
        finally:
            process.kill()


def _requests(site: Site, audit_log: AuditLog) -> Mapping[str, Sequence[Request]]:
    """Return the requests of each component's account so far."""
    return {name: audit_log.requests(site.releases.namespace, f"lodge-{name}") for name in COMPONENTS}


@contextmanager
def _gateway(site: Site, number: int) -> Iterator[PodProcess]:
    """Run the process of a gateway pod."""
    process = site.gateway(site.releases.pods("gateway")[number])
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _check_health(gateway: PodProcess) -> int:
    """Probe the pod as a kubelet does with a gRPC probe."""
    with grpc.insecure_channel(_address(gateway)) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    return int(answer.status)


def _probe(reaper: PodProcess, probe: V1Probe) -> bool:
    """Probe the pod as a kubelet does with an httpGet probe."""
    served = SERVED.search(reaper.log.read_text())
    assert served is not None
    connection = http.client.HTTPConnection(served[1], timeout=SECONDS)
    connection.request("GET", probe.http_get.path)
    return connection.getresponse().status == http.HTTPStatus.OK


@contextmanager
def _client(gateway: PodProcess) -> Iterator[SparkSession]:
    """Open a session whose client does not wait for a stopped gateway when it ends."""
    session = SparkSession.builder.remote(f"sc://{_address(gateway)}").create()
    try:
        yield session
    finally:
        session.client.close()


def _address(gateway: PodProcess) -> str:
    ready = READY.search(gateway.log.read_text())
    assert ready is not None
    return ready[1]
