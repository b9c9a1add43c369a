"""The values in the guides about Kubernetes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from tests.docs.commands import Block, blocks
from tests.helm.chart import Values

GUIDES = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes"
PAGES = sorted(GUIDES.glob("*.md"))


def examples(page: Path) -> Iterator[tuple[Block, Values]]:
    """Yield the blocks of a page that contain values of the chart, and the values."""
    for block in blocks(page):
        if block.language == "yaml":
            documents: Sequence[Values] = list(yaml.safe_load_all(block.text))
            if not any("apiVersion" in each for each in documents):
                yield block, documents[0]
