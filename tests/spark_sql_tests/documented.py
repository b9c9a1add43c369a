"""The documented differences between Lodge and Spark, and a comparison with those that a run has found."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.spark_sql_tests.differences import Difference
from tests.spark_sql_tests.ways import WAYS

_ALL_WAYS = "all"
_LIST = Path(__file__).with_name("documented_differences.yaml")


@dataclass(frozen=True, slots=True)
class DocumentedDifference:
    """A statement whose outcome with Lodge differs for a reason.

    Attributes:
        way: The way of the run.
        file: The name of the file.
        number: The position of the statement in the file, from 0.
        digest: The digest of the statement.
        reason: Why the outcome differs.
    """

    way: str
    file: str
    number: int
    digest: str
    reason: str

    def __str__(self) -> str:
        return f"{self.way} {self.file} {self.number} {self.digest}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which differences of a run are documented.

    Attributes:
        undocumented: The differences that are not documented.
        outdated: The documented differences that the run has not found.
    """

    undocumented: Sequence[Difference]
    outdated: Sequence[DocumentedDifference]


def read_documented_differences() -> Sequence[DocumentedDifference]:
    """Return the list of documented differences. One in all ways counts once for each way."""
    return [
        DocumentedDifference(each, file, int(number), digest, group["reason"])
        for group in yaml.safe_load(_LIST.read_text())
        for line in group["statements"]
        for way, file, number, digest in [line.split()[:4]]
        for each in (WAYS if way == _ALL_WAYS else [way])
    ]


def judge(
    differences: Iterable[Difference], documented: Iterable[DocumentedDifference], runs: Collection[tuple[str, str]]
) -> Verdict:
    """Compare the differences of a run with the documented ones.

    Args:
        differences: The differences of the run.
        documented: The documented differences.
        runs: The ways and files of the run. Documented differences of others are not outdated.
    """
    found = {_key(each): each for each in differences}
    expected = {_key(each): each for each in documented}
    return Verdict(
        [each for key, each in found.items() if key not in expected],
        [each for key, each in expected.items() if key not in found and (each.way, each.file) in runs],
    )


def _key(difference: Difference | DocumentedDifference) -> tuple[str, str, int, str]:
    return difference.way, difference.file, difference.number, difference.digest
