"""The contents of files that a gateway has used, for the gateway that replaces it.

A file that the operator has damaged does not end the sessions of a gateway whose process is lost: the new process
continues with the contents that the former one used last, as the former one would have done.
"""

from typing import Protocol, TypeVar

_Value = TypeVar("_Value")
_Files = TypeVar("_Files")
_Contents = TypeVar("_Contents")


class KeptContents(Protocol[_Value]):
    """Memory for one value that outlives the process of the gateway."""

    def read(self) -> _Value | None:
        """Return the value that was written last. None if there is none."""

    def write(self, value: _Value, /) -> None:
        """Replace the value."""


def find_kept(kept: KeptContents[tuple[_Files, _Contents]] | None, files: _Files) -> _Contents | None:
    """Return the contents that were kept for the files. None if there are none, or they belong to other files."""
    found = None if kept is None else kept.read()
    return found[1] if found is not None and found[0] == files else None


def keep(kept: KeptContents[tuple[_Files, _Contents]] | None, files: _Files, contents: _Contents) -> None:
    """Keep the contents of the files, if there is memory for them."""
    if kept is not None:
        kept.write((files, contents))
