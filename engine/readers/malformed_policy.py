"""The option ``malformed``, which all text formats share."""

from enum import Enum


class MalformedPolicy(Enum):
    """The treatment of a row that the reader cannot read."""

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"
