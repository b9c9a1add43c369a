"""Nothing of the tutorial is left out. The release of `default_values/` is the one that its commands install."""

from tests.docs.commands import blocks
from tests.installation.tutorial import PAGE, executed_blocks, provided_blocks

PROVIDED = ("make cluster", "make images", "-m tests.cluster load", "make --silent cluster NODES=2")
"""The only commands that no test runs."""


def test_only_the_cluster_and_the_images_are_provided() -> None:
    commands = [line for block in provided_blocks() for line in block.text.splitlines()]
    assert [line for line in commands if not any(allowed in line for allowed in PROVIDED)] == []
    programs = [block for block in blocks(PAGE) if block.language != "text"]
    assert programs == sorted([*executed_blocks(), *provided_blocks()], key=lambda block: block.line)
