"""Starts Spark and a gateway for programs that are not tests of pytest."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.processes import DIES_WITH_PARENT
from tests.conftest import READY, end, start_spark_process


@contextmanager
def start_spark_and_lodge(directory: Path) -> Iterator[tuple[str, str]]:
    """Start Spark and a gateway, and yield their addresses.

    Args:
        directory: An empty directory for their files.

    Raises:
        RuntimeError: If the gateway does not start.
    """
    for name in ("spark", "tmp", "files"):
        (directory / name).mkdir()
    spark = start_spark_process(directory / "spark")
    try:
        command = [*DIES_WITH_PARENT, sys.executable, "-m", "lodge", "serve", "--listen", "127.0.0.1:0", "--no-reaper"]
        command += ["--backend", spark.address, "--workspace", f"dfs={(directory / 'files').as_uri()}"]
        command += ["--workspace", f"dfs.tmp={(directory / 'tmp').as_uri()}"]
        with (directory / "lodge.log").open("wb") as log:
            gateway = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=directory, text=True)
        try:
            assert gateway.stdout is not None
            ready = READY.match(gateway.stdout.readline())
            if ready is None:
                raise RuntimeError(f"lodge serve did not start:\n{(directory / 'lodge.log').read_text()}")
            yield spark.address, ready[1]
        finally:
            end(gateway)
    finally:
        end(spark.process)
