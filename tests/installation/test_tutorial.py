"""The tutorial leads from an empty cluster to a temporary table."""

from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.cluster.cluster import Cluster
from tests.docs.commands import blocks
from tests.installation.tutorial import NAMESPACE, PAGE, executed_blocks, provided_blocks, run_tutorial

PROVIDED = ("make cluster", "make images", "-m tests.cluster load", "make --silent cluster NODES=2")
"""The only commands that the test does not run."""


@pytest.mark.slow
def test_commands_of_the_tutorial_run(real_cluster: Cluster, tmp_path: Path) -> None:
    run_tutorial(real_cluster, tmp_path)
    names = {each.metadata.name for each in CoreV1Api(real_cluster.client).list_namespace().items}
    assert NAMESPACE not in names


def test_only_the_cluster_and_the_images_are_provided() -> None:
    commands = [line for block in provided_blocks() for line in block.text.splitlines()]
    assert [line for line in commands if not any(allowed in line for allowed in PROVIDED)] == []
    programs = [block for block in blocks(PAGE) if block.language != "text"]
    assert programs == sorted([*executed_blocks(), *provided_blocks()], key=lambda block: block.line)
