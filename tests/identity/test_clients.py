"""Unmodified clients connect over TLS with a token.

Each client runs as a program of its own, as its users run it. The recorder shows which principal the backend sees.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.cache import user_cache
from tests.conftest import LodgeProcess
from tests.errors.client_programs import build_go_client, build_scala_client, run_program
from tests.identity.certificates import CertificateAuthority
from tests.identity.conftest import target_of
from tests.identity.methods import create_token
from tests.identity.recorder import Recorder
from tests.identity.rpcs import BY_NAME
from tests.skips import skip_missing

pytestmark = pytest.mark.slow

RUST = Path(__file__).parent / "clients" / "rust"
RUST_BUILD_SECONDS = 900
STATEMENT = "select 'connected' status"
PYSPARK = """
import sys
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
try:
    print(spark.sql(sys.argv[2]).first().status)
except PySparkException as error:
    print(error)
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway with TLS and tokens.

    Attributes:
        remote: The connection string without a token.
        token: A valid token of the principal ``ada``.
        authority: The PEM file with the authority of the gateway's certificate.
    """

    remote: str
    token: str
    authority: Path


@pytest.fixture(scope="module")
def site(
    start_lodge: Callable[..., LodgeProcess],
    recorder: Recorder,
    authority: CertificateAuthority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Site:
    directory = tmp_path_factory.mktemp("clients")
    tokens, files = directory / "tokens.yaml", authority.server()
    token = create_token(tokens, "ada")
    config = directory / "lodge.yaml"
    tls = {"certificate": str(files.certificate), "key": str(files.key)}
    config.write_text(yaml.safe_dump({"authentication": [{"kind": "tokens", "file": str(tokens)}], "tls": tls}))
    port = target_of(start_lodge("--config", str(config), backend=recorder.address)).rpartition(":")[2]
    return Site(f"sc://localhost:{port}/;use_ssl=true", token, authority.certificate)


Client = Callable[[str], str]
"""Runs `STATEMENT` with a connection string, and returns what the client shows: ``connected`` or an error."""


@pytest.fixture(scope="module")
def pyspark_client(site: Site) -> Client:
    variables = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(site.authority)}
    return lambda remote: run_program([sys.executable, "-c", PYSPARK, remote, STATEMENT], variables=variables)


@pytest.fixture(scope="module")
def go_client(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Client:
    client = build_go_client(tmp_path_factory.mktemp("go"))
    variables = {"SSL_CERT_FILE": str(site.authority)}
    return lambda remote: json.dumps(client.run([(remote, STATEMENT)], variables)[0] or "connected")


@pytest.fixture(scope="module")
def scala_client(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Client:
    directory = tmp_path_factory.mktemp("scala")
    client = build_scala_client()
    store = directory / "trusted.p12"
    options = ["-noprompt", "-storetype", "PKCS12", "-storepass", "changeit", "-alias", "lodge"]
    run_program(["keytool", "-importcert", *options, "-file", site.authority, "-keystore", store])
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]

    def run(remote: str) -> str:
        _, text, _, _ = client.run([(remote, STATEMENT)], trust)[0]
        return text or "connected"

    return run


@pytest.fixture(scope="module")
def rust_client(site: Site) -> Iterator[Client]:
    program = build_rust_client()
    variables = {"SSL_CERT_FILE": str(site.authority)}
    yield lambda remote: run_program([program, remote, STATEMENT], variables=variables)


def build_rust_client() -> Path:
    """Build the program once into the user's cache directory. Later runs use the same build."""
    cargo = shutil.which("cargo")
    if cargo is None:
        skip_missing("Rust is not installed. Install it with cargo, and put it on PATH.")
    described = run_program([cargo, "metadata", "--locked", "--format-version", "1"], cwd=RUST)
    packages = {each["name"]: Path(each["manifest_path"]).parent for each in json.loads(described)["packages"]}
    target = user_cache() / "clients" / "rust"
    variables: Mapping[str, str] = {
        "CARGO_TARGET_DIR": str(target),
        "PROTOC": str(packages["protoc-bin-vendored-linux-x86_64"] / "bin" / "protoc"),
    }
    run_program([cargo, "build", "--locked"], cwd=RUST, variables=variables, seconds=RUST_BUILD_SECONDS)
    return target / "debug" / "connects"


@pytest.mark.timeout(RUST_BUILD_SECONDS + 120)
@pytest.mark.parametrize("name", ["pyspark_client", "go_client", "scala_client", "rust_client"])
def test_client_connects_over_tls_with_a_token(
    name: str, site: Site, recorder: Recorder, request: pytest.FixtureRequest
) -> None:
    client: Client = request.getfixturevalue(name)
    position = len(recorder.calls)
    assert "connected" in client(f"{site.remote};token={site.token}")
    executions = [call for call in recorder.since(position) if call.method == "ExecutePlan"]
    assert executions
    for call in recorder.since(position):
        for message in call.messages:
            assert BY_NAME[call.method].decode(message).user_context.user_id == "ada"
        assert not {"authorization", "authentication"} & {key for key, _ in call.metadata}


@pytest.mark.timeout(RUST_BUILD_SECONDS + 120)
@pytest.mark.parametrize("name", ["pyspark_client", "go_client", "scala_client"])
def test_client_shows_why_it_was_refused(
    name: str, site: Site, recorder: Recorder, request: pytest.FixtureRequest
) -> None:
    client: Client = request.getfixturevalue(name)
    position = len(recorder.calls)
    shown = client(f"{site.remote};token={site.token[:-4]}AAAA")
    assert "LODGE_UNAUTHENTICATED" in shown
    assert "valid credentials" in shown
    assert recorder.since(position) == []
