"""Missing and unexpected answers of the API server (guarantees: workspace.kubernetes.api_server)."""

import http.client
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import certifi
import pytest
from kubernetes.client import FlowcontrolApiserverV1Api

from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.cluster.kubeconfig import Server as ServerFile
from tests.cluster.processes import wait_until
from tests.records import a_record
from tests.workspace.kubernetes.conftest import RULES
from workspace.identifiers import ClientSessionId, ReplicaId, TableUuid
from workspace.kubernetes.api_server import RetryPolicy
from workspace.kubernetes.connect_session_objects import new_object
from workspace.kubernetes.connection import Connection, connect
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.record_changes import add_holder
from workspace.record_store import RecordsUnavailableError, RecordsUnreachable, RecordTooLargeError, SessionRecords
from workspace.records import SessionRecord, TableState, TemporaryTable

A = ReplicaId("a")
ONCE = RetryPolicy(repeat_seconds=0.0)
HASTE = RetryPolicy(timeout_seconds=(2.0, 4.0), repeat_seconds=0.0)
"""For servers that do not answer at all."""


def questions(
    connection: Connection, record: SessionRecord, retry_policy: RetryPolicy = ONCE
) -> list[Callable[[], object]]:
    """Return every kind of request."""
    records = KubernetesSessionRecords(connection, retry_policy)
    leases = KubernetesLeases(connection, retry_policy=retry_policy)
    root_ids = KubernetesRootIds(connection, retry_policy)
    return [
        records.list,
        lambda: records.find(record.session_uuid),
        lambda: records.read(record.name),
        lambda: records.create(record),
        lambda: leases.renew(A),
        leases.list,
        lambda: leases.delete(A),
        lambda: root_ids.expected("/data"),
        lambda: root_ids.record("/data", "1"),
    ]


def assert_unavailable(asked: list[Callable[[], object]], reason: str) -> None:
    """Check that no answer is mistaken for "there is none"."""
    with ThreadPoolExecutor(len(asked)) as threads:
        for answer in [threads.submit(question) for question in asked]:
            with pytest.raises(RecordsUnavailableError, match=reason) as unavailable:
                answer.result()
            message = str(unavailable.value)
            assert "://127.0.0.1:" in message
            assert "secret" not in message
            assert "\n" not in message


def test_error_names_the_missing_right(session_cluster: Cluster, session_namespace: str) -> None:
    nobody = session_cluster.service_account(session_namespace, "nobody")
    asked = questions(connect(nobody.kubeconfig, None, "lodge"), a_record())
    assert_unavailable(asked, r"403 Forbidden: .* cannot .*Give the service account the rights")


def test_server_with_wrong_certificate_is_refused(
    session_cluster: Cluster, account: ServiceAccount, tmp_path: Path
) -> None:
    stranger = ServerFile(session_cluster.server.url, Path(certifi.where()))
    kubeconfig = stranger.write_kubeconfig(tmp_path / "kubeconfig", {"tokenFile": str(account.token_file)})
    assert_unavailable(questions(connect(kubeconfig, None, "lodge"), a_record()), "CERTIFICATE_VERIFY_FAILED")


def test_missing_definition_makes_records_unavailable(account: ServiceAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workspace.kubernetes.connect_session_api.API_VERSION", "v0")
    record = a_record()
    asked = questions(connect(account.kubeconfig, None, "lodge"), record)[:4]
    assert_unavailable(asked, r"404 .*connectsessions.sparklodge.io is installed")


def test_missing_namespace_makes_records_unavailable(session_cluster: Cluster) -> None:
    records = KubernetesSessionRecords(connect(session_cluster.kubeconfig, "nowhere", "lodge"), ONCE)
    with pytest.raises(RecordsUnavailableError, match=r"namespaces .*nowhere.* not found.*Check that the namespace"):
        records.create(a_record())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, "<html>Log in</html>"),
        (200, "[]"),
        (200, '{"status": "ok"}'),
        (200, '{"kind": "Something", "metadata": "none"}'),
        (404, "<html>Not here</html>"),
        (302, ""),
    ],
)
def test_answer_of_a_proxy_makes_records_unavailable(tmp_path: Path, status: int, content: str) -> None:
    with _answering((status, content)) as url:
        kubeconfig = ServerFile(url, tmp_path / "none").write_kubeconfig(tmp_path / "kubeconfig", {"token": "secret"})
        assert_unavailable(questions(connect(kubeconfig, None, "lodge"), a_record()), "cannot be used now")


@pytest.mark.parametrize(
    "page",
    [
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {}, "items": []},
        {"metadata": {"resourceVersion": "1"}, "items": None},
        {"metadata": {"resourceVersion": "1"}, "items": ["one"]},
        {"metadata": {"resourceVersion": "1"}, "items": [{"spec": {}}]},
    ],
)
def test_answer_that_is_no_list_of_objects_makes_records_unavailable(tmp_path: Path, page: dict[str, Any]) -> None:
    with _answering((200, json.dumps({"kind": "List", **page}))) as url:
        kubeconfig = ServerFile(url, tmp_path / "none").write_kubeconfig(tmp_path / "kubeconfig", {"token": "secret"})
        connection = connect(kubeconfig, None, "lodge")
        records = KubernetesSessionRecords(connection, ONCE)
        asked = [records.list, lambda: records.find(a_record().session_uuid), KubernetesLeases(connection).list]
        assert_unavailable(asked, "not an API server")
        stop = threading.Event()
        first = next(iter(records.watch(stop)))
        assert isinstance(first, RecordsUnreachable)


def test_network_partition_is_noticed_in_time_and_survived(
    session_cluster: Cluster, records: SessionRecords, connection: Connection
) -> None:
    stored = records.create(a_record())
    asked = questions(connection, a_record(), HASTE)
    with session_cluster.api_server.paused():
        assert_unavailable(asked, "cannot be used now")
    assert list(records.list()) == [stored]


@pytest.mark.slow
def test_server_without_its_storage_makes_records_unavailable(
    session_cluster: Cluster, records: SessionRecords, connection: Connection
) -> None:
    stored = records.create(a_record())
    with session_cluster.etcd.paused():
        assert_unavailable(questions(connection, a_record(), HASTE)[:4], "cannot be used now")
    assert list(records.list()) == [stored]


@pytest.mark.slow
def test_guarantee_2_short_outage_is_retried(session_cluster: Cluster, connection: Connection) -> None:
    records = KubernetesSessionRecords(connection, RetryPolicy(repeat_seconds=60.0))
    stored = records.create(a_record())
    with ThreadPoolExecutor(1) as thread:
        with session_cluster.api_server.stopped():
            change = thread.submit(records.replace, add_holder(stored.record, A), stored.version)
            with pytest.raises(TimeoutError):
                change.result(0.5)
        changed = change.result(60)
    assert records.read(stored.record.name) == changed


@pytest.mark.slow
def test_guarantee_2_throttled_request_is_retried_when_the_server_says(
    session_cluster: Cluster, session_namespace: str, instance: str
) -> None:
    account = session_cluster.service_account(session_namespace, f"throttled-{instance}")
    account.allow(*RULES)
    connection = connect(account.kubeconfig, None, instance)
    stored = KubernetesSessionRecords(connection).create(a_record())
    asked_at = _times_of_requests(connection)
    with _throttled(session_cluster, account):
        asked_at.clear()
        with pytest.raises(RecordsUnavailableError, match="429 Too Many Requests"):
            KubernetesSessionRecords(connection, RetryPolicy(repeat_seconds=3.0)).list()
        pauses = [later - earlier for earlier, later in pairwise(asked_at)]
        assert pauses, "it was asked once more at least"
        assert min(pauses) >= 1, "the server asks for one second"
        assert len(asked_at) <= 4, "it is asked once a second, for three seconds"
        waiting = ThreadPoolExecutor(1).submit(
            KubernetesSessionRecords(connection, RetryPolicy(repeat_seconds=60.0)).list
        )
    assert waiting.result() == [stored]


def test_list_that_expires_between_pages_is_read_again(tmp_path: Path) -> None:
    first, second, third = (a_record(client_session_id=ClientSessionId(str(number))) for number in range(3))
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "the continue parameter is too old"}
    answers = [
        (200, _page([first], more="token")),
        (410, json.dumps(gone)),
        (200, _page([second], more="token")),
        (200, _page([third])),
    ]
    with _answering(*answers) as url:
        kubeconfig = ServerFile(url, tmp_path / "none").write_kubeconfig(tmp_path / "kubeconfig", {"token": "secret"})
        listed = KubernetesSessionRecords(connect(kubeconfig, None, "lodge")).list()
    assert [stored.record for stored in listed] == [second, third]


def test_list_of_many_pages_shows_one_point_in_time(
    records: SessionRecords, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workspace.kubernetes.api_server.PAGE_OBJECTS", 4)
    made = {records.create(a_record(client_session_id=ClientSessionId(str(number)))) for number in range(10)}
    asked_at = _times_of_requests(connection)
    assert set(KubernetesSessionRecords(connection).list()) == made
    assert len(asked_at) == 3


def test_record_with_a_thousand_tables_is_stored(records: SessionRecords) -> None:
    stored = records.create(a_record(tables=_tables(1_000)))
    assert records.read(stored.record.name).record == stored.record


@pytest.mark.slow
def test_record_larger_than_the_limit_is_refused_before_the_request(records: SessionRecords) -> None:
    stored = records.create(a_record())
    full = replace(stored.record, tables=_tables(10_000))
    with pytest.raises(RecordTooLargeError, match=r"10000 temporary tables .* \d+ bytes, .* accepts 1400000. Drop"):
        records.replace(full, stored.version)
    with pytest.raises(RecordTooLargeError):
        records.create(replace(full, client_session_id=ClientSessionId("other")))
    assert list(records.list()) == [stored]


def test_record_that_etcd_refuses_is_too_large(records: SessionRecords) -> None:
    """The server encodes some characters with six bytes."""
    stored = records.create(a_record())
    tables = tuple(replace(table, options=(("x", "<" * 2_000),)) for table in _tables(400))
    with pytest.raises(RecordTooLargeError, match="more than the API server accepts"):
        records.replace(replace(stored.record, tables=tables), stored.version)
    assert records.read(stored.record.name) == stored


def _tables(count: int) -> tuple[TemporaryTable, ...]:
    uuids = [TableUuid(f"00000000-0000-4000-8000-{number:012}") for number in range(count)]
    return tuple(
        TemporaryTable(f"temporary_table_{uuid}", uuid, TableState.READY, "parquet", parts=(uuid,)) for uuid in uuids
    )


def _times_of_requests(connection: Connection) -> list[float]:
    """Return a list that collects the monotonic time of each further request of a connection."""
    times: list[float] = []
    call = connection.api_client.call_api

    def timed(*arguments: Any, **options: Any) -> Any:
        times.append(time.monotonic())
        return call(*arguments, **options)

    connection.api_client.call_api = timed
    return times


@contextmanager
def _throttled(cluster: Cluster, account: ServiceAccount) -> Iterator[None]:
    """Let the API server accept one request of the account at a time, and keep it busy with one."""
    levels = FlowcontrolApiserverV1Api(cluster.client)
    limited = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": account.namespace, "name": account.name}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    levels.create_priority_level_configuration(
        {"metadata": {"name": account.name}, "spec": {"type": "Limited", "limited": limited}}
    )
    flow = {
        "priorityLevelConfiguration": {"name": account.name},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [everything]}],
    }
    schema = levels.create_flow_schema({"metadata": {"name": account.name}, "spec": flow})
    try:
        wait_until(lambda: _flow_of(cluster, account) == schema.metadata.uid, "the API server limits requests", 60.0)
        with _requesting(cluster, account, "POST", [("Content-Length", "1000")]):  # and it never sends them
            wait_until(lambda: _flow_of(cluster, account) is None, "the API server throttles", 60.0)
            yield
    finally:
        levels.delete_flow_schema(account.name)
        levels.delete_priority_level_configuration(account.name)


def _flow_of(cluster: Cluster, account: ServiceAccount) -> str | None:
    """Return the rule by which the server queues a request of the account; None if it refuses the request."""
    with _requesting(cluster, account, "GET", []) as request:
        response = request.getresponse()
        return None if response.status == 429 else response.getheader("X-Kubernetes-Pf-Flowschema-Uid")


@contextmanager
def _requesting(
    cluster: Cluster, account: ServiceAccount, method: str, headers: list[tuple[str, str]]
) -> Iterator[http.client.HTTPSConnection]:
    address = urlsplit(cluster.server.url)
    context = ssl.create_default_context(cafile=cluster.server.ca_file)
    request = http.client.HTTPSConnection(address.hostname or "", address.port, context=context)
    request.putrequest(method, f"/api/v1/namespaces/{account.namespace}/configmaps")
    for header in [("Authorization", f"Bearer {account.token}"), *headers]:
        request.putheader(*header)
    request.endheaders()
    try:
        yield request
    finally:
        request.close()


def _page(records: list[SessionRecord], more: str = "") -> str:
    """Return a page of a list in the form of the API server."""
    state = {"uid": "u", "generation": 1, "resourceVersion": "1"}
    objects = [new_object(record, "lodge", "0123456789abcdef") for record in records]
    items = [{**content, "metadata": {**content["metadata"], **state}} for content in objects]
    return json.dumps({"kind": "List", "metadata": {"resourceVersion": "1", "continue": more}, "items": items})


@contextmanager
def _answering(*answers: tuple[int, str]) -> Iterator[str]:
    """Run a server that gives these answers in turn, the last one repeatedly, and yield its URL."""
    left = list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            status, content = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content.encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
