"""The errors that a client may see, read from the documentation.

A fault must not show a client an error that nobody can look up.
"""

import re
from functools import cache
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_PAGES = ("errors.md", "faults.md")
_CONDITION = re.compile(r"^\| `([A-Z][A-Z_.]+)` \|", re.MULTILINE)


def is_documented(error: PySparkException, *, storage_fails: bool) -> bool:
    """Return whether the reference documents an error.

    Args:
        error: The error.
        storage_fails: Whether the storage may fail, so that jobs of Spark may fail with errors of Spark.
    """
    condition = error.getCondition()
    if condition is None:
        return storage_fails or isinstance(error, SparkConnectGrpcException)
    return condition in _documented_conditions() or (storage_fails and not condition.startswith("LODGE_"))


@cache
def _documented_conditions() -> frozenset[str]:
    return frozenset(name for page in _PAGES for name in _CONDITION.findall((_REFERENCE / page).read_text()))
