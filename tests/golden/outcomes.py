"""The outcomes of all texts and plans in the golden corpus, and their digests."""

import asyncio
import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pyspark.sql.connect.proto import base_pb2

from tests.golden.corpus import groups
from tests.golden.plans import random_plans
from tests.golden.routes import Routes

_PLANS = 250
_PLAN_GROUPS = 12
_DIGESTS = Path(__file__).with_name("digests.txt")


def outcomes() -> Iterator[tuple[str, Sequence[tuple[str, str]]]]:
    """Yield each group, and its texts with their outcomes."""
    with tempfile.TemporaryDirectory(prefix="lodge-golden-") as directory:
        routes = Routes(Path(directory))

        async def find(texts: Sequence[str]) -> Sequence[tuple[str, str]]:
            return [(text, await routes.of_text(text)) for text in texts]

        async def find_of_plans(plans: Iterable[base_pb2.Plan]) -> Sequence[tuple[str, str]]:
            return [(str(plan), await routes.of_plan(plan)) for plan in plans]

        with asyncio.Runner() as runner:
            for group, texts in groups().items():
                yield group, runner.run(find(texts))
            for number in range(_PLAN_GROUPS):
                yield f"plans {number}", runner.run(find_of_plans(random_plans(_PLANS, number)))


def digests() -> Mapping[str, str]:
    """Return a digest of the texts and outcomes of each group."""
    return {group: hashlib.sha256(repr(found).encode()).hexdigest()[:16] for group, found in outcomes()}


def write_digests(found: Mapping[str, str]) -> None:
    """Write the digests that the test expects."""
    _DIGESTS.write_text("".join(f"{digest} {group}\n" for group, digest in found.items()))


def read_digests() -> Mapping[str, str]:
    """Return the digests that the test expects."""
    lines = (line.split(" ", 1) for line in _DIGESTS.read_text().splitlines())
    return {group: digest for digest, group in lines}
