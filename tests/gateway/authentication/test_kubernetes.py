"""Token reviews by a real API server (guarantees: gateway.authentication.kubernetes_tokens)."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import grpc
import pytest
from kubernetes.client import CoreV1Api
from structlog.testing import capture_logs

from gateway.authentication.authenticator import Authenticator
from gateway.authentication.kubernetes_tokens import THREADS, KubernetesMethod, KubernetesSettings
from gateway.authentication.method import Naming
from gateway.authentication.token_entries import new_token
from gateway.errors import GatewayError
from gateway.reloading.last_valid_value import SourceError
from tests.cluster.accounts import ServiceAccount
from tests.cluster.cluster import Cluster
from tests.cluster.kubeconfig import Server
from tests.gateway.authentication.conftest import call_with, eventually, identify, refusal
from tests.identity.provider import IdentityProvider
from tests.workspace.kubernetes.tcp_proxy import TcpProxy
from workspace.kubernetes.connection import connect

pytestmark = pytest.mark.slow

MAY_REVIEW = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
LIFETIME_SECONDS = 600


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[str]:
    name = cluster.namespace("authentication")
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def gateway_account(cluster: Cluster, place: str) -> ServiceAccount:
    account = cluster.service_account(place, "gateway")
    account.allow_everywhere(MAY_REVIEW)
    return account


@pytest.fixture(scope="module")
def token_of(cluster: Cluster, place: str) -> Callable[..., str]:
    """Return a function that requests a token of a service account."""
    core = CoreV1Api(cluster.client)

    def request(name: str, *audiences: str) -> str:
        cluster.service_account(place, name)
        spec = {"audiences": list(audiences), "expirationSeconds": LIFETIME_SECONDS}
        return str(core.create_namespaced_service_account_token(name, place, {"spec": spec}).status.token)

    return request


def method(
    kubeconfig: Path, *audiences: str, cache_seconds: float = 10.0, naming: Naming | None = None
) -> KubernetesMethod:
    settings = KubernetesSettings(audiences or ("lodge",), cache_seconds, naming or Naming())
    return KubernetesMethod(settings, connect(kubeconfig, None, "lodge"))


async def test_principal_and_groups_are_those_of_kubernetes(
    gateway_account: ServiceAccount, place: str, token_of: Callable[..., str]
) -> None:
    identity = await identify(Authenticator([method(gateway_account.kubeconfig)]), call_with(token_of("ada", "lodge")))
    assert identity.principal == f"system:serviceaccount:{place}:ada"
    assert identity.groups == {"system:serviceaccounts", f"system:serviceaccounts:{place}", "system:authenticated"}
    assert identity.method == "kubernetes"
    assert identity.expires_at is not None
    assert 0 < identity.expires_at - time.time() <= LIFETIME_SECONDS


async def test_guarantee_1_audience_is_verified(
    gateway_account: ServiceAccount, token_of: Callable[..., str], tmp_path: Path
) -> None:
    lodge = Authenticator([method(gateway_account.kubeconfig)])
    several = Authenticator([method(gateway_account.kubeconfig, "other", "lodge")])
    await identify(several, call_with(token_of("ada", "lodge")))
    await identify(lodge, call_with(token_of("ada", "lodge", "third")))
    await refusal(lodge, call_with(token_of("ada", "other")))
    await refusal(lodge, call_with(gateway_account.token))
    await refusal(lodge, call_with(token_of("ada", "lodge")[:-2]))
    await refusal(lodge, call_with(IdentityProvider(tmp_path).token("ada")))
    await refusal(lodge, call_with("not-a-jwt"))


async def test_guarantee_2_unreachable_api_server_lets_nobody_in(
    cluster: Cluster, gateway_account: ServiceAccount, token_of: Callable[..., str], tmp_path: Path
) -> None:
    port = urlsplit(cluster.server.url).port
    is_reachable = True
    token, other = token_of("ada", "lodge"), token_of("ada", "lodge")
    with TcpProxy(lambda: port if is_reachable else None) as proxy:
        server = Server(f"https://127.0.0.1:{proxy.port}", cluster.server.ca_file)
        file = server.write_kubeconfig(
            tmp_path / "kubeconfig", {"tokenFile": str(gateway_account.token_file)}, "default"
        )
        authenticator = Authenticator([method(file)])
        await identify(authenticator, call_with(token))
        is_reachable = False
        proxy.cut()
        await identify(authenticator, call_with(token))
        with capture_logs() as logs, pytest.raises(GatewayError) as refused:
            await authenticator.identify(call_with(other))
        assert refused.value.code is grpc.StatusCode.UNAVAILABLE
        assert refused.value.condition == "LODGE_AUTHENTICATION_UNAVAILABLE"
        assert logs[0]["event"] == "authentication_unavailable"
        assert logs[0]["log_level"] == "error"
        assert other not in str(logs)
        assert authenticator.failing_methods == ["kubernetes"]
        is_reachable = True

        async def has_recovered() -> bool:
            try:
                return (await identify(authenticator, call_with(other))).method == "kubernetes"
            except GatewayError:
                return False

        await eventually(has_recovered, "the API server can be reached again")
        assert authenticator.failing_methods == []


async def test_guarantee_3_one_review_for_many_calls(
    gateway_account: ServiceAccount, token_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reviewing = method(gateway_account.kubeconfig)
    sent: list[str] = []
    send = reviewing._send
    monkeypatch.setattr(reviewing, "_send", lambda token: (sent.append(token), send(token))[1])
    authenticator = Authenticator([reviewing])
    token, wrong = token_of("ada", "lodge"), token_of("bob", "lodge")[:-2]
    await asyncio.gather(*(identify(authenticator, call_with(token)) for _ in range(5 * THREADS)))
    assert sent == [token]
    for _ in range(3):
        await refusal(authenticator, call_with(wrong))
    assert sent == [token, wrong], "a refused token is not reviewed again at once"


async def test_guarantee_3_tokens_of_lodge_are_not_sent(
    gateway_account: ServiceAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime

    reviewing = method(gateway_account.kubeconfig)
    monkeypatch.setattr(reviewing, "_send", lambda _: pytest.fail("a token of Lodge was sent"))
    await refusal(Authenticator([reviewing]), call_with(new_token("ada", now=datetime.now(UTC))[0]))


async def test_cancelled_call_does_not_end_the_review(
    gateway_account: ServiceAccount, token_of: Callable[..., str]
) -> None:
    authenticator = Authenticator([method(gateway_account.kubeconfig)])
    token = token_of("ada", "lodge")
    cancelled = asyncio.create_task(authenticator.identify(call_with(token)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(identify(authenticator, call_with(token)))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert (await waiting).method == "kubernetes"


async def test_prefixes_keep_names_apart(gateway_account: ServiceAccount, token_of: Callable[..., str]) -> None:
    prefixed = Authenticator([method(gateway_account.kubeconfig, naming=Naming("k8s:", "k8s:"))])
    identity = await identify(prefixed, call_with(token_of("ada", "lodge")))
    assert identity.principal.startswith("k8s:system:serviceaccount:")
    assert "k8s:system:authenticated" in identity.groups


def test_missing_permission_is_explained_at_the_start(cluster: Cluster, place: str) -> None:
    account = cluster.service_account(place, "without-rights")
    with pytest.raises(SourceError, match=r"HTTP status 403 Forbidden. Bind the ClusterRole system:auth-delegator"):
        method(account.kubeconfig)


def test_unreachable_server_is_explained_at_the_start(
    gateway_account: ServiceAccount, cluster: Cluster, tmp_path: Path
) -> None:
    server = Server("https://127.0.0.1:1", cluster.server.ca_file)
    file = server.write_kubeconfig(tmp_path / "kubeconfig", {"tokenFile": str(gateway_account.token_file)}, "default")
    with pytest.raises(SourceError, match=r"server \[https://127.0.0.1:1\] cannot be reached"):
        method(file)


async def test_tokens_are_not_logged(
    gateway_account: ServiceAccount, token_of: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    authenticator = Authenticator([method(gateway_account.kubeconfig)])
    accepted, refused = token_of("ada", "lodge"), token_of("ada", "other")
    with capture_logs() as logs:
        await identify(authenticator, call_with(accepted))
        await refusal(authenticator, call_with(refused))
    assert accepted not in f"{logs} {caplog.text}"
    assert refused not in f"{logs} {caplog.text}"
