"""The image `lodge-spark` runs Spark Connect servers and executors."""

import re
from collections.abc import Mapping

import pytest

from tests.images.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def spark(sandboxes: Mapping[str, Sandbox]) -> Sandbox:
    return sandboxes["lodge-spark"]


def test_server_and_executor_run_statements(spark: Sandbox) -> None:
    result = spark.run("bash", "/mnt/spark_programme.sh", seconds=900)
    output = result.stdout + result.stderr
    assert result.stdout.splitlines() == [
        "master started",
        "server started",
        "probe succeeds without executors",
        "probe fails with a wrong token",
        "probe fails without a server",
        "probe fails if the statement fails",
        "executor runs a task",
        "executor is decommissioned",
        "server ended with 143",
    ], output
    probe, client = (
        sum(map(float, re.findall(rf"^{name} seconds of CPU: (\S+) (\S+)$", result.stderr, re.MULTILINE)[0]))
        for name in ("probe", "client")
    )
    assert probe < client / 2, "a probe needs little time, because it does not load PySpark"


def test_executor_names_missing_variables(spark: Sandbox) -> None:
    result = spark.run("lodge-spark", "executor", SPARK_EXECUTOR_ID="1")
    assert result.returncode == 64
    assert "An executor needs SPARK_DRIVER_URL SPARK_APPLICATION_ID " in result.stderr
    assert "SPARK_EXECUTOR_ID" not in result.stderr


def test_unknown_command_is_refused(spark: Sandbox) -> None:
    result = spark.run("lodge-spark", "driver")
    assert (result.returncode, result.stderr) == (
        64,
        "lodge-spark: The first argument is 'server' or 'executor', not 'driver'.\n",
    )
