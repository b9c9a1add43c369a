"""The option ``malformed`` of all text formats."""

from enum import Enum


class MalformedPolicy(Enum):
    """Treatment of a row that the reader cannot read."""

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"
