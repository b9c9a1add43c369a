"""The image `lodge` runs gateway and reaper."""

from collections.abc import Mapping

import pytest
import yaml

from images.builder import Builder, Image
from tests.helm.chart import CHART
from tests.images.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # the first build downloads the base and all dependencies

SERVE_AND_STOP = """
files=$(mktemp -d)
lodge serve --listen 127.0.0.1:0 --backend sc://127.0.0.1:1 --workspace dfs.tmp=file://$files --no-reaper >$files.out &
until grep 'ready at' $files.out; do kill -0 $! && sleep 0.1 || exit 1; done
kill $! && wait $!
"""

CLIENT = """
import pandas, pyarrow.parquet
from pyspark.sql.connect.functions import col
from pyspark.sql.connect.session import SparkSession
print(col("id") == 1)
"""


@pytest.fixture(scope="module")
def lodge(sandboxes: Mapping[str, Sandbox]) -> Sandbox:
    return sandboxes["lodge"]


def test_image_contains_lodge(lodge: Sandbox) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert lodge.output("lodge", "--version") == f"lodge {chart['appVersion']}\n"
    assert "--leader-election" in lodge.output("lodge", "reap", "--help")


def test_image_runs_as_user_of_chart(builder: Builder, images: Mapping[str, Image]) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())["podSecurityContext"]
    assert builder.inspect(images["lodge"], "{{.OCIv1.Config.User}}") == f"{values['runAsUser']}:{values['runAsGroup']}"
    assert builder.inspect(images["lodge"], "{{.OCIv1.Config.Entrypoint}}") == "[lodge]"


@pytest.mark.parametrize("user", ["185", "12345"])
def test_gateway_serves_as_any_user(lodge: Sandbox, user: str) -> None:
    assert "Lodge is ready at sc://127.0.0.1:" in lodge.output("sh", "-c", SERVE_AND_STOP, user=user)


def test_image_meets_kubernetes_needs_and_has_no_spark(lodge: Sandbox) -> None:
    lodge.output("python3", "-c", "import lodge.reap_on_kubernetes, workspace.kubernetes.session_records")
    assert not list((lodge.root / "opt").rglob("*.jar"))


def test_image_contains_the_client_of_pyspark(lodge: Sandbox) -> None:
    """`helm test` uses it."""
    assert lodge.output("python3", "-c", CLIENT) == "Column<'==(id, 1)'>\n"
