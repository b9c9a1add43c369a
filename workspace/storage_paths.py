"""Paths and URIs of storage locations, as shown to users, logs and Spark.

A location on a file system is a :class:`~pathlib.Path`. A location in an object store is a URI of the form
``s3://bucket/prefix``. ``str`` returns the human-readable form of both.
"""

from pathlib import Path
from typing import TypeAlias

StoragePath: TypeAlias = Path | str

OWN_DIRECTORY = ".lodge"
"""The name of the directory in a root that contains all of Lodge's own files except for session locations."""


def file_system_of(path: StoragePath) -> str:
    """Return the URI of the file system that contains a path.

    The result is ``file:///`` or the URI of a bucket.
    """
    return "file:///" if isinstance(path, Path) else "/".join(path.split("/", 3)[:3])


def deletion_message(location: StoragePath) -> str:
    """Return the log message for a deleted session location.

    Source: [temporary-tables §5.1.13].
    """
    return f"Deleted session temporary location [{location}] from file system [{file_system_of(location)}]"
