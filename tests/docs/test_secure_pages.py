"""The commands of the pages in docs/how-to/secure, run in order on a machine with a real Spark."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
import yaml

from tests.cluster.ports import free_port
from tests.docs.commands import PageRun, blocks
from tests.identity.certificates import CertificateAuthority
from tests.identity.provider import IdentityProvider
from tests.quick_java import QUICK_JAVA_OPTIONS

REPOSITORY = Path(__file__).parents[2]
PAGES = REPOSITORY / "docs" / "how-to" / "secure"
EXECUTED = ("bash", "python")
PAGE_SECONDS = 1200
"""How long a page may take, with its servers, on a loaded machine."""

pytestmark = pytest.mark.timeout(PAGE_SECONDS)


class Machine:
    """The machine of a page: its directory ``/etc/lodge``, its host name and its ports.

    Attributes:
        etc: The directory that replaces ``/etc/lodge``.
        variables: The environment variables of the commands.
        replacements: What replaces names of the page.
    """

    def __init__(self, directory: Path, backend: str) -> None:
        self.etc = directory / "etc"
        self.etc.mkdir()
        files, temporary = directory / "files", directory / "tmp"
        for path in (files, temporary):
            path.mkdir()
        port = free_port()
        self.variables = {
            "LODGE_BACKEND": backend,
            "LODGE_REAPER": "false",
            "LODGE_WORKSPACE": f"dfs={files.as_uri()},dfs.tmp={temporary.as_uri()}",
        }
        self.replacements = {
            "/etc/lodge": str(self.etc),
            "0.0.0.0:15002": f"127.0.0.1:{port}",
            "127.0.0.1:15002": f"127.0.0.1:{port}",
            "lodge.example.com:15002": f"localhost:{port}",
            "lodge.example.com": "localhost",
        }

    def install_certificate(self, authority: CertificateAuthority) -> None:
        """Install the certificate that most pages presuppose, and let clients trust it."""
        files = authority.server()
        shutil.copy(files.certificate, self.etc / "tls.crt")
        shutil.copy(files.key, self.etc / "tls.key")
        shutil.copy(authority.certificate, self.etc / "ca.crt")
        self.variables["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(authority.certificate)


@pytest.fixture
def machine(tmp_path: Path, spark_server: str) -> Machine:
    return Machine(tmp_path, spark_server)


@pytest.fixture
def secured(machine: Machine, tmp_path: Path) -> Machine:
    """A machine with a certificate."""
    machine.install_certificate(CertificateAuthority(tmp_path))
    return machine


def run(page: str, machine: Machine, directory: Path) -> None:
    """Run a page. All its blocks for programs must have run."""
    place = directory / "work"
    place.mkdir()
    path = PAGES / f"{page}.md"
    with PageRun(place, machine.variables, machine.replacements) as page_run:
        count = page_run.run(path)
    assert count == len([block for block in blocks(path) if block.language in EXECUTED]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("page", ["admins", "audit", "certificates", "limits", "tokens"])
def test_commands_of_page_run(page: str, secured: Machine, tmp_path: Path) -> None:
    run(page, secured, tmp_path)


@pytest.mark.slow
def test_commands_of_tls_page_run_without_an_existing_certificate(machine: Machine, tmp_path: Path) -> None:
    run("tls", machine, tmp_path)


@pytest.fixture
def spark_home(machine: Machine, tmp_path: Path) -> Iterator[None]:
    """Let the page start a Spark server with Spark's own scripts, and stop it at the end."""
    home = Path(pyspark.__file__).parent
    port = free_port()
    machine.replacements["15003"] = str(port)
    machine.variables |= {
        "JAVA_TOOL_OPTIONS": QUICK_JAVA_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_IDENT_STRING": f"lodge-{port}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(tmp_path / "spark-logs"),
        "SPARK_PID_DIR": str(tmp_path / "spark-pids"),
    }
    yield
    stop = [home / "sbin" / "stop-connect-server.sh"]
    subprocess.run(stop, env=os.environ | machine.variables, check=True, capture_output=True, timeout=60)


@pytest.mark.slow
def test_commands_of_backends_page_run(machine: Machine, spark_home: None, tmp_path: Path) -> None:
    run("backends", machine, tmp_path)


@pytest.mark.slow
def test_commands_of_jwt_page_run(secured: Machine, tmp_path: Path) -> None:
    provider = IdentityProvider(tmp_path)
    with provider.serve() as server:
        secured.replacements = {"https://idp.example.com/jwks.json": server.url, **secured.replacements}
        secured.variables["TOKEN"] = provider.token("ada")
        run("jwt", secured, tmp_path)


@pytest.mark.slow
def test_commands_of_kubernetes_page_run(secured: Machine, kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    access = yaml.safe_load(kubeconfig.read_text())
    for context in access["contexts"]:
        context["context"]["namespace"] = namespace
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(access))
    secured.variables["KUBECONFIG"] = str(own)
    run("kubernetes", secured, tmp_path)


def test_every_secure_page_is_run() -> None:
    source = Path(__file__).read_text()
    pages = {path.stem for path in PAGES.glob("*.md") if path.stem != "README"}
    assert {page for page in pages if f'"{page}"' not in source} == set()
