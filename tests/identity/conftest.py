"""A recorded backend, and one gateway for each authentication method."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import LodgeProcess
from tests.identity.certificates import CertificateAuthority
from tests.identity.gateways import Credentials, GuardedGateway
from tests.identity.methods import CertificateMethod, JwtMethod, KubernetesMethod, MethodUnderTest, TokensMethod
from tests.identity.provider import IdentityProvider
from tests.identity.recorder import Recorder

KINDS = (
    "combined",  # tests the JWTs between the other methods
    "tokens",
    "certificate",
    pytest.param("kubernetes", marks=[pytest.mark.slow, pytest.mark.cluster]),
)
TARGET = re.compile(r"sc://([^/;\s]+)")


@pytest.fixture(scope="session")
def recorder(spark_server: str) -> Iterator[Recorder]:
    """A recorder in front of the shared Spark server."""
    with Recorder(spark_server) as recorder:
        yield recorder


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """The authority of the gateways' certificates."""
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session", params=KINDS)
def guarded(
    request: pytest.FixtureRequest,
    start_shared_lodge: Callable[..., LodgeProcess],
    recorder: Recorder,
    authority: CertificateAuthority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GuardedGateway]:
    """A gateway with TLS and one method, or with one method between others."""
    directory = tmp_path_factory.mktemp(request.param)
    files = authority.server()
    tls = {"certificate": str(files.certificate), "key": str(files.key)}
    settings: dict[str, Any] = {
        "audit_log": str(directory / "audit.log"),
        "failed_logins_per_minute": 1_000_000,  # replies are not delayed
        "tls": tls,
    }
    provider = IdentityProvider(directory)
    methods = make_methods(request, directory, provider)
    method = methods[len(methods) // 2]
    credentials = Credentials.issue(method)
    for each in methods:
        if isinstance(each, CertificateMethod):
            tls["client_ca"] = str(each.client_authorities)
        if isinstance(each, KubernetesMethod):
            settings["kubeconfig"] = str(each.kubeconfig)
    settings["authentication"] = [dict(each.settings()) for each in methods]
    config = directory / "lodge.yaml"
    config.write_text(yaml.safe_dump(settings))
    lodge = start_shared_lodge("--config", str(config), backend=recorder.address)
    guarded = GuardedGateway(
        method, lodge, target_of(lodge), authority.certificate, recorder, directory / "audit.log", credentials
    )
    yield guarded
    guarded.close()
    lodge.stop()


def make_methods(
    request: pytest.FixtureRequest, directory: Path, provider: IdentityProvider
) -> Sequence[MethodUnderTest]:
    """Return the methods of a gateway. The one in the middle is tested."""
    match request.param:
        case "tokens":
            return [TokensMethod(directory, provider)]
        case "certificate":
            return [CertificateMethod(directory, provider)]
        case "combined":
            tokens = TokensMethod(directory, provider)
            tokens.valid("nobody")
            return [tokens, JwtMethod(provider), CertificateMethod(directory, provider)]
    return [KubernetesMethod(request.getfixturevalue("cluster"))]


def target_of(lodge: LodgeProcess) -> str:
    """Return the address ``host:port`` of a gateway, with or without TLS."""
    found = TARGET.match(lodge.address)
    assert found is not None, lodge.address
    return found[1]
