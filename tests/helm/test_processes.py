"""Sessions under the chart's own configuration, with real gateways and reapers.

Clients connect with TLS and with tokens of service accounts, which a real API server reviews.

The test compares their requests to the API server with the permissions that the chart grants. No permission may be
missing, and none may be unused.
"""

import http.client
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from kubernetes.client import CoordinationV1Api, CustomObjectsApi, V1Pod, V1Probe
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.cluster.processes import REQUEST_SECONDS, wait_until
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
READY = re.compile(r"Lodge is ready at sc://([^\s/]+)")
SERVED = re.compile(r'"address": "([^"]+)", "event": "(?:gateway|reaper)_metrics_served"')
DELETION_MESSAGE = re.compile(r"Deleted session temporary location \[\S+\] from file system \[\S+\]")
STARTED = {"gateway": READY, "reaper": SERVED}
COMPONENTS = tuple(STARTED)
AUDIENCE = "lodge"
SECRETS_PATH = "/etc/lodge-secrets"
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
            "config": {"lease_duration": "8s", "grace_period": "3s", "max_principal_tables": 10},
        }
        releases.install(values=self.values)
        self.config = directory / "lodge.yaml"
        self.secrets = directory / "secrets"
        self.secrets.mkdir()
        for name, content in releases.certificate().items():
            (self.secrets / name).write_text(content)
        self.config.write_text(releases.configuration_file().replace(SECRETS_PATH, str(self.secrets)))
        releases.core.create_namespaced_service_account(releases.namespace, {"metadata": {"name": "ada"}})
        self.accounts = {name: self._account(name) for name in COMPONENTS}
        self._directory = directory
        self._starts = count(1)
        client = releases.cluster.client
        self._objects, self._leases = CustomObjectsApi(client), CoordinationV1Api(client)

    def gateway(self, pod: V1Pod) -> PodProcess:
        return self._process("gateway", pod)

    def reaper(self, pod: V1Pod) -> PodProcess:
        return self._process("reaper", pod)

    def token(self, *audiences: str, seconds: int = 3600) -> str:
        """Return a token of the service account of the client."""
        request = {"spec": {"audiences": audiences, "expirationSeconds": seconds}}
        answer = self.releases.core.create_namespaced_service_account_token("ada", self.releases.namespace, request)
        return str(answer.status.token)

    def channel(self, gateway: PodProcess, token: str = "") -> grpc.Channel:
        """Return a channel that verifies the certificate of the gateway, with a token if there is one."""
        credentials = grpc.ssl_channel_credentials((self.secrets / "ca.crt").read_bytes())
        if token:
            credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
        return grpc.secure_channel(_address(gateway).replace("127.0.0.1", "localhost"), credentials)

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
        wait_until(condition, what, SECONDS, REQUEST_SECONDS)

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
        _end_sessions_and_stop_gateway(site, reaper)
        _kill_gateway(site)
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


def test_only_tokens_for_lodge_from_this_cluster_get_in(site: Site) -> None:
    """Run after the scenarios, because their requests are counted."""
    good = site.token(AUDIENCE)
    header, claims, _ = good.split(".")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    content = jwt.decode(good, options={"verify_signature": False})
    denied = {
        "none": "",
        "not a token": "ada",
        "audience of the API server": site.token(),
        "another audience": site.token("other"),
        "another cluster": jwt.encode(content, key, "RS256", {"kid": jwt.get_unverified_header(good)["kid"]}),
        "no signature": f"{header}.{claims}.",
    }
    with _running(site.on_new_storage("gateway")) as gateway:
        codes = {name: _status(site, gateway, token) for name, token in denied.items()}
        assert codes == dict.fromkeys(denied, grpc.StatusCode.UNAUTHENTICATED)
        assert _status(site, gateway, good) is None
        assert _status(site, gateway, site.token("other", AUDIENCE)) is None
        with grpc.insecure_channel(_address(gateway)) as channel, pytest.raises(grpc.RpcError) as raised:
            _get_settings(channel, timeout=5)
        assert raised.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
        gateway.stop()
        log = gateway.log.read_text()
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    failed = [event for event in events if event["event"] == "login_failed"]
    assert sum(event["count"] for event in failed) == len(denied)
    (opened,) = {event["principal"] for event in events if event["event"] == "session_opened"}
    assert opened == f"system:serviceaccount:{site.releases.namespace}:ada"
    assert not [each for each in (good, *denied.values()) if len(each) > len("ada") and each in log]


def _status(site: Site, gateway: PodProcess, token: str) -> grpc.StatusCode | None:
    """Return the status of a request with a token. None if the request succeeded."""
    with site.channel(gateway, token) as channel:
        try:
            _get_settings(channel)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
    return None


def _get_settings(channel: grpc.Channel, timeout: float = SECONDS) -> None:
    operation = base_pb2.ConfigRequest.Operation(get_all=base_pb2.ConfigRequest.GetAll())
    request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), operation=operation)
    base_pb2_grpc.SparkConnectServiceStub(channel).Config(request, timeout=timeout)


def _end_sessions_and_stop_gateway(site: Site, reaper: PodProcess) -> None:
    pod = site.releases.pods("gateway")[0]
    with _running(site.gateway(pod)) as gateway:
        (container,) = pod.spec.containers
        assert _probe(gateway, container.liveness_probe)
        site.wait(lambda: _probe(gateway, container.readiness_probe), "the gateway is ready")
        site.wait(lambda: len(site.leases()) == 2, "reaper and gateway have a lease")
        _end_session(site, gateway)
        _delete_session_object(site, gateway)
        _delete_session_object_without_gateway(site, gateway, reaper)


def _end_session(site: Site, gateway: PodProcess) -> None:
    with _client(site, gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        assert client.table("t").collect() == [(1,)]
        (session,) = site.sessions()
        assert session["spec"]["summary"]["tables"] == 1
        assert session["spec"]["principal"] == f"system:serviceaccount:{site.releases.namespace}:ada"
        assert session["metadata"]["finalizers"] == ["sparklodge.io/session-location"]
        (location,) = site.locations()
        assert location.name == session["spec"]["sessionUuid"]
        site.wait(lambda: site.sessions()[0].get("status"), "the reaper has written the status of the session")
        client.stop()
        site.wait_until_empty()


def _delete_session_object(site: Site, gateway: PodProcess) -> None:
    with _client(site, gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        site.delete_session()
        site.wait_until_empty()


def _delete_session_object_without_gateway(site: Site, gateway: PodProcess, reaper: PodProcess) -> None:
    """The reaper does not run while the gateway stops. Otherwise it could end the session before it is deleted."""
    with _client(site, gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        assert reaper.stop() == 0
        assert gateway.stop() == 0
        assert len(site.sessions()) == len(site.locations()) == 1
        site.delete_session()
        reaper.start()
    site.wait_until_empty()


def _kill_gateway(site: Site) -> None:
    pod = site.releases.pods("gateway")[0]
    with _running(site.gateway(pod)) as gateway, _client(site, gateway) as client:
        client.sql("create temporary table t as select 1 one").collect()
        gateway.kill()
        site.releases.core.delete_namespaced_pod(pod.metadata.name, site.releases.namespace, grace_period_seconds=0)
        site.wait_until_empty()
    site.wait(
        lambda: any(map(DELETION_MESSAGE.fullmatch, site.event_messages())),
        "the reaper reports the deletion as an Event",
    )
    site.wait(lambda: set(site.leases()) == {"lodge-reaper"}, "the dead gateway's lease is gone")


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
            assert set(site.leases()) == {"lodge-reaper"}
        finally:
            process.kill()


def _requests(site: Site, audit_log: AuditLog) -> Mapping[str, Sequence[Request]]:
    """Return the requests of each component's account so far."""
    return {name: audit_log.requests(site.releases.namespace, f"lodge-{name}") for name in COMPONENTS}


@contextmanager
def _running(process: PodProcess) -> Iterator[PodProcess]:
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _probe(process: PodProcess, probe: V1Probe) -> bool:
    """Probe the pod as a kubelet does with an httpGet probe."""
    served = SERVED.search(process.log.read_text())
    assert served is not None
    connection = http.client.HTTPConnection(served[1], timeout=SECONDS)
    connection.request("GET", probe.http_get.path)
    return connection.getresponse().status == http.HTTPStatus.OK


class _TrustingBuilder(DefaultChannelBuilder):
    """Connects as PySpark does with `use_ssl=true;token=…`, and trusts the certificate authority of the release."""

    def __init__(self, site: Site, gateway: PodProcess) -> None:
        token = site.token(AUDIENCE)
        super().__init__(f"sc://{_address(gateway)}/;use_ssl=true;token={token}")
        self._channel = site.channel(gateway, token)

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        return self._channel


@contextmanager
def _client(site: Site, gateway: PodProcess) -> Iterator[SparkSession]:
    """Open a session whose client does not wait for a stopped gateway when it ends."""
    session = SparkSession.builder.channelBuilder(_TrustingBuilder(site, gateway)).create()
    try:
        yield session
    finally:
        session.client.close()


def _address(gateway: PodProcess) -> str:
    ready = READY.search(gateway.log.read_text())
    assert ready is not None
    return ready[1]
