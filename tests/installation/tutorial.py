"""The tutorial about Kubernetes, run as a reader runs it.

The commands run in a directory with the chart and the Python of this repository. The test provides the cluster with the
images, so it leaves out the blocks that make them: those with the language ``bash cluster``.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from kubernetes.client import ApiException

from tests.cluster.builds import program
from tests.cluster.cluster import Cluster
from tests.cluster.ports import free_port
from tests.docs.commands import Block, PageRun, blocks
from tests.helm.chart import CHART
from tests.quick_java import QUICK_JAVA_OPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "kubernetes.md"
NAMESPACE = "lodge"
BLOCK_SECONDS = 660.0
_REGISTRY = "global: {imageRegistry: lodge.test}\n"
_QUICK_SPARK = {f"spark.{pod}.extraJavaOptions": QUICK_JAVA_OPTIONS for pod in ("driver", "executor")}
_EXECUTED = ("bash", "python")
_PROVIDED = "bash cluster"


def executed_blocks() -> Sequence[Block]:
    return [block for block in blocks(PAGE) if block.language in _EXECUTED]


def provided_blocks() -> Sequence[Block]:
    """Return the blocks whose work the cluster of the test has done already."""
    return [block for block in blocks(PAGE) if block.language == _PROVIDED]


class Tutorial:
    """A context manager that runs the commands of the tutorial in parts, and compares their output with the page.

    Args:
        cluster: A cluster with real nodes, which have the images.
        directory: An empty directory.

    Attributes:
        executed: The number of blocks that ran.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.executed = 0
        self._cluster = cluster
        self._lines = PAGE.read_text().splitlines()
        self._line = 0
        self._part = directory / PAGE.name
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
            _REGISTRY: f"{_REGISTRY}spark: {json.dumps({'config': _QUICK_SPARK})}\n",
        }
        self._page_run = PageRun(place, variables, replacements, seconds=BLOCK_SECONDS)

    def __enter__(self) -> Self:
        self._page_run.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._page_run.__exit__()
        with suppress(ApiException):  # the page deletes it at its end
            self._cluster.delete_namespace(NAMESPACE)

    def run_until(self, text: str) -> None:
        """Run the next blocks, up to the line that begins with a text.

        Raises:
            CommandError: A command fails, or its output is not the expected one.
        """
        self._run([line.startswith(text) for line in self._lines].index(True))

    def finish(self) -> None:
        """Run all other blocks, as `run_until`."""
        self._run(len(self._lines))

    def _run(self, end: int) -> None:
        done = [""] * self._line  # so that errors name the lines of the page
        self._part.write_text("\n".join([*done, *self._lines[self._line : end]]))
        self._line = end
        self.executed += self._page_run.run(self._part)
