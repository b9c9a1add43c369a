"""Unmodified clients connect over TLS with a token.

Each client runs as a program of its own, as its users run it. The recorder shows which principal the backend sees.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
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
for remote in sys.argv[2:]:
    spark = SparkSession.builder.remote(remote).create()
    try:
        print(spark.sql(sys.argv[1]).first().status)
    except PySparkException as error:
        print(str(error).replace("\\n", " "))
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


Client = Callable[[Sequence[str]], Sequence[str]]
"""Runs `STATEMENT` with each connection string, and returns what the client shows: ``connected`` or an error."""


@pytest.fixture(scope="module")
def pyspark_client(site: Site) -> Client:
    variables = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(site.authority)}
    command = [sys.executable, "-c", PYSPARK, STATEMENT]
    return lambda remotes: run_program([*command, *remotes], variables=variables).splitlines()


@pytest.fixture(scope="module")
def go_client(site: Site) -> Client:
    client = build_go_client()
    variables = {"SSL_CERT_FILE": str(site.authority)}

    def run(remotes: Sequence[str]) -> Sequence[str]:
        shown = client.run([(remote, STATEMENT) for remote in remotes], variables)
        return [json.dumps(each) if each else "connected" for each in shown]

    return run


@pytest.fixture(scope="module")
def scala_client(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Client:
    directory = tmp_path_factory.mktemp("scala")
    client = build_scala_client()
    store = directory / "trusted.p12"
    options = ["-noprompt", "-storetype", "PKCS12", "-storepass", "changeit", "-alias", "lodge"]
    run_program(["keytool", "-importcert", *options, "-file", site.authority, "-keystore", store])
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]

    def run(remotes: Sequence[str]) -> Sequence[str]:
        shown = client.run([(remote, STATEMENT) for remote in remotes], trust)
        return [text or "connected" for _, text, _, _ in shown]

    return run


@pytest.fixture(scope="module")
def rust_client(site: Site) -> Client:
    program = build_rust_client()
    variables = {"SSL_CERT_FILE": str(site.authority)}
    return lambda remotes: [run_program([program, each, STATEMENT], variables=variables) for each in remotes]


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
        "CARGO_PROFILE_DEV_DEBUG": "false",  # a third of the processor time of the build
        "PROTOC": str(packages["protoc-bin-vendored-linux-x86_64"] / "bin" / "protoc"),
    }
    run_program([cargo, "build", "--locked"], cwd=RUST, variables=variables, seconds=RUST_BUILD_SECONDS)
    return target / "debug" / "connects"


@pytest.mark.timeout(RUST_BUILD_SECONDS + 120)
@pytest.mark.parametrize("name", ["pyspark_client", "go_client", "scala_client", "rust_client"])
def test_client_connects_over_tls_with_a_token_and_shows_why_it_was_refused(
    name: str, site: Site, recorder: Recorder, request: pytest.FixtureRequest
) -> None:
    client: Client = request.getfixturevalue(name)
    position = len(recorder.calls)
    tokens = (site.token, f"{site.token[:-4]}AAAA")
    connected, refused = client([f"{site.remote};token={token}" for token in tokens])
    assert "connected" in connected
    assert "LODGE_UNAUTHENTICATED" in refused
    assert "valid credentials" in refused
    calls = recorder.since(position)
    assert "ExecutePlan" in {call.method for call in calls}
    requests = [BY_NAME[call.method].decode(message) for call in calls for message in call.messages]
    assert len({request.session_id for request in requests}) == 1, "nothing of the refused session reaches the backend"
    assert {request.user_context.user_id for request in requests} == {"ada"}
    assert not {"authorization", "authentication"} & {key for call in calls for key, _ in call.metadata}
