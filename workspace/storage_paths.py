"""Paths and URIs of storage, as users, logs and Spark see them.

A place on a file system is a :class:`~pathlib.Path`. A place in an object store is a URI, ``s3://bucket/prefix``.
``str`` of either is the form for people.
"""

from pathlib import Path
from typing import TypeAlias

StoragePath: TypeAlias = Path | str

OWN_DIRECTORY = ".lodge"
"""The name below which a root keeps all of Lodge's own files that are not session locations."""


def file_system_of(path: StoragePath) -> str:
    """Return the URI of the file system of a path.

    It is ``file:///``, or that of the bucket.
    """
    return "file:///" if isinstance(path, Path) else "/".join(path.split("/", 3)[:3])


def deletion_message(location: StoragePath) -> str:
    """Return the log message for a deleted session location.

    Source: [temporary-tables §5.1.13].
    """
    return f"Deleted session temporary location [{location}] from file system [{file_system_of(location)}]"
