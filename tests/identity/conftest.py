"""A recorded backend, and one gateway for each authentication method."""

import re
from collections.abc import Callable, Iterator
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

KINDS = ("tokens", "jwt", "certificate", pytest.param("kubernetes", marks=[pytest.mark.slow, pytest.mark.cluster]))
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
    start_lodge: Callable[..., LodgeProcess],
    recorder: Recorder,
    authority: CertificateAuthority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GuardedGateway]:
    """A gateway with TLS and one method."""
    directory = tmp_path_factory.mktemp(request.param)
    files = authority.server()
    tls: dict[str, Any] = {"certificate": str(files.certificate), "key": str(files.key)}
    method = make_method(request, directory)
    settings: dict[str, Any] = {
        "audit_log": str(directory / "audit.log"),
        "failed_logins_per_minute": 1_000_000,  # replies are not delayed
    }
    credentials = Credentials.issue(method)
    config = directory / "lodge.yaml"
    if isinstance(method, CertificateMethod):
        tls["client_ca"] = str(method.client_authorities)
    if isinstance(method, KubernetesMethod):
        settings["kubeconfig"] = str(method.kubeconfig)
    config.write_text(yaml.safe_dump({"authentication": [dict(method.settings())], "tls": tls, **settings}))
    lodge = start_lodge("--config", str(config), backend=recorder.address)
    guarded = GuardedGateway(
        method, lodge, target_of(lodge), authority.certificate, recorder, directory / "audit.log", credentials
    )
    yield guarded
    guarded.close()


def make_method(request: pytest.FixtureRequest, directory: Path) -> MethodUnderTest:
    provider = IdentityProvider(directory)
    if request.param == "tokens":
        return TokensMethod(directory, provider)
    if request.param == "jwt":
        return JwtMethod(provider)
    if request.param == "certificate":
        return CertificateMethod(directory, provider)
    return KubernetesMethod(request.getfixturevalue("cluster"))


def target_of(lodge: LodgeProcess) -> str:
    """Return the address ``host:port`` of a gateway, with or without TLS."""
    found = TARGET.match(lodge.address)
    assert found is not None, lodge.address
    return found[1]
