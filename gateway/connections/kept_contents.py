"""The contents of files that a gateway has used, for the gateway that replaces it.

A file that the operator has damaged does not end the sessions of a gateway whose process is lost: the new process
continues with the contents that the former one used last, as the former one would have done.
"""

from typing import Protocol, TypeVar

_Value = TypeVar("_Value")


class KeptContents(Protocol[_Value]):
    """Memory for one value that outlives the process of the gateway."""

    def read(self) -> _Value | None:
        """Return the value that was written last. None if there is none."""

    def write(self, value: _Value, /) -> None:
        """Replace the value."""
