"""The image that the Containerfile builds runs gateway and reaper."""

from collections.abc import Iterator

import pytest
import yaml

from tests.helm.chart import CHART
from tests.helm.images import Builder, Container, install_tools
from tests.skips import skip_missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # the first build downloads the base and all dependencies

SERVE_AND_STOP = """
files=$(mktemp -d)
lodge serve --listen 127.0.0.1:0 --backend sc://127.0.0.1:1 --workspace dfs.tmp=file://$files --no-reaper >$files.out &
until grep 'ready at' $files.out; do kill -0 $! && sleep 0.1 || exit 1; done
kill $! && wait $!
"""


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    if problem := install_tools():
        skip_missing(problem)
    with Builder(tmp_path_factory.mktemp("image")) as builder:
        builder.build()
        yield builder


@pytest.fixture(scope="module")
def container(builder: Builder) -> Iterator[Container]:
    with builder.container() as container:
        yield container


def test_image_contains_lodge(container: Container) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert container.run("lodge", "--version") == f"lodge {chart['appVersion']}\n"
    assert "--leader-election" in container.run("lodge", "reap", "--help")


def test_image_runs_as_user_of_chart(builder: Builder, container: Container) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["podSecurityContext"]
    user = f"{values['runAsUser']}:{values['runAsGroup']}"
    assert builder.inspect("{{.OCIv1.Config.User}}") == user
    assert builder.inspect("{{.OCIv1.Config.Entrypoint}}") == "[lodge]"
    assert container.run("sh", "-c", "echo $(id -u):$(id -g)").strip() == user


@pytest.mark.parametrize("user", ["185:185", "12345:12345"])
def test_gateway_serves_as_any_user(container: Container, user: str) -> None:
    assert "Lodge is ready at sc://127.0.0.1:" in container.run("sh", "-c", SERVE_AND_STOP, user=user)


def test_image_meets_kubernetes_needs_and_has_no_spark(container: Container) -> None:
    container.run("python3", "-c", "import lodge.reap_on_kubernetes, workspace.kubernetes.session_records")
    assert not container.run("find", "/opt/lodge", "-path", "*/pyspark/*.jar")
    assert not container.run("find", "/opt/lodge", "-user", "185")
