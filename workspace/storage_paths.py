"""Where something lies in storage, as users, logs and Spark are told it.

A directory of a file system is a path. In an object store there are no directories: what lies below a prefix is named
by its URI, ``s3://bucket/prefix``. ``str`` of either is what people read.
"""

from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

StoragePath: TypeAlias = Path | str

OWN_DIRECTORY = ".lodge"
"""Everything of Lodge's own that is no session location lies below this name."""


def file_system_of(place: StoragePath) -> str:
    """The URI of the file system that a place is in: ``file:///``, or the bucket's."""
    if isinstance(place, Path):
        return "file:///"
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc}"


def deletion_message(location: StoragePath) -> str:
    """What the deletion of a session location is called wherever it is told (seed 001, 5.1.13)."""
    return f"Deleted session temporary location [{location}] from file system [{file_system_of(location)}]"
