"""The tutorial about Kubernetes, run as a reader runs it.

The commands run in a directory with the chart and the Python of this repository. The test provides the cluster with the
images, so it leaves out the blocks that make them: those with the language ``bash cluster``.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kubernetes.client import ApiException

from tests.cluster.builds import program
from tests.cluster.cluster import Cluster
from tests.cluster.ports import free_port
from tests.docs.commands import Block, PageRun, blocks
from tests.helm.chart import CHART

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "kubernetes.md"
NAMESPACE = "lodge"
BLOCK_SECONDS = 660.0
_EXECUTED = ("bash", "python")
_PROVIDED = "bash cluster"


def executed_blocks() -> Sequence[Block]:
    return [block for block in blocks(PAGE) if block.language in _EXECUTED]


def provided_blocks() -> Sequence[Block]:
    """Return the blocks whose work the cluster of the test has done already."""
    return [block for block in blocks(PAGE) if block.language == _PROVIDED]


def run_tutorial(cluster: Cluster, directory: Path) -> None:
    """Run the commands of the tutorial, and compare their output with the page.

    Args:
        cluster: A cluster with real nodes, which have the images.
        directory: An empty directory.

    Raises:
        CommandError: A command fails, or its output is not the expected one.
    """
    place = directory / "repository"
    place.mkdir()
    (place / CHART.parent.name).symlink_to(CHART.parent)
    (place / ".venv").symlink_to(sys.prefix)
    programs = directory / "programs"
    programs.mkdir()
    for name in ("helm", "kubectl"):
        (programs / name).symlink_to(program(name))
    variables = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    port = free_port()
    replacements = {
        "service/lodge 15002": f"service/lodge {port}:15002",
        "localhost:15002": f"localhost:{port}",
    }
    try:
        with PageRun(place, variables, replacements, seconds=BLOCK_SECONDS) as page_run:
            count = page_run.run(PAGE)
    except BaseException:
        with suppress(ApiException):  # the page may not have created it yet
            cluster.delete_namespace(NAMESPACE)
        raise
    assert count == len(executed_blocks()) > 0
