"""Names that become paths, and the one place that says which are allowed.

Why it exists: session UUIDs, record names and replica ids are read from requests, records and other
processes' files. Each is checked here before it is joined to a path, so that no name can point anywhere but
below its directory.

Guarantees of every name that a ``checked_…`` function returns:

1. It is one path component: not empty, no separator, no leading dot, no NUL, at most 200 characters of ASCII.
2. It has no letter in upper case, so that two names differ on a file system that ignores letter case as well.
3. It is the argument itself, never a repaired form of it; anything else raises ValueError.
"""

import re

from workspace.records import RecordName, ReplicaId

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECORD_NAME = re.compile(r"[0-9a-f]{40}")
_REPLICA_ID = re.compile(r"[a-z0-9]([a-z0-9.-]{0,198}[a-z0-9])?")


def is_uuid(text: str) -> bool:
    """Whether the text is a UUID in its canonical form: lower case, with hyphens."""
    return _UUID.fullmatch(text) is not None


def is_record_name(text: str) -> bool:
    """Whether the text is what :func:`workspace.records.record_name` makes."""
    return _RECORD_NAME.fullmatch(text) is not None


def is_replica_id(text: str) -> bool:
    """Whether the text can name a lease, as a file and as a Kubernetes object."""
    return _REPLICA_ID.fullmatch(text) is not None


def check_uuid(uuid: str) -> str:
    if not is_uuid(uuid):
        raise ValueError(f"Not a UUID in lower case with hyphens: {uuid!r}")
    return uuid


def check_record_name(name: RecordName) -> RecordName:
    if not is_record_name(name):
        raise ValueError(f"Not the name of a session record: {name!r}")
    return name


def check_replica_id(replica: ReplicaId) -> ReplicaId:
    if not is_replica_id(replica):
        raise ValueError(f"Not a replica id (lower case letters, digits, '-' and '.' inside): {replica!r}")
    return replica
