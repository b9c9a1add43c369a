"""The policy for rows of text that cannot be read, the same in all formats of text."""

from enum import Enum


class MalformedPolicy(Enum):
    """What becomes of a row that cannot be read."""

    FAIL = "fail"
    SKIP = "skip"
    NULL = "null"
