"""The identifiers of sessions, tables and replicas, and the validation of those that become parts of paths.

Session UUIDs, record names and replica ids come from requests, records and files of other processes. A ``check_…``
function must accept each of them before it becomes part of a path, so no identifier can point outside its directory.

Guarantees for every identifier that a ``check_…`` function returns:

1. It is one path component: not empty, no separator, no leading dot, no NUL, at most 200 ASCII characters.
2. It has no upper-case letter, so two identifiers also differ on a file system that ignores letter case.
3. It is the argument, unchanged. Everything else raises ValueError.
"""

import hashlib
import re
from typing import NewType

Principal = NewType("Principal", str)
"""Who authentication says the client is; today, the ``user_id`` that the client sends."""

ClientSessionId = NewType("ClientSessionId", str)
"""The session id that a client chose; unique per principal only, and never part of a path."""

SessionUuid = NewType("SessionUuid", str)
"""The random UUID that names a session location; the gateway chooses it."""

TableUuid = NewType("TableUuid", str)
"""The random UUID that names a directory of a temporary table in the session location."""

ReplicaId = NewType("ReplicaId", str)
"""The name of a gateway replica; each start of the process has a new one."""

RecordName = NewType("RecordName", str)
"""The name of a record in its storage; see :func:`record_name`."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECORD_NAME = re.compile(r"[0-9a-f]{40}")
_REPLICA_ID = re.compile(r"[a-z0-9]([a-z0-9.-]{0,198}[a-z0-9])?")


def record_name(principal: Principal, client_session_id: ClientSessionId) -> RecordName:
    """Return the name of the record of a session.

    - The name always has 40 characters of ``[0-9a-f]``, so it is safe as a file name and as a Kubernetes object name.
    - One session always has the same name. So when two replicas see the first request of a session at the same time,
      the creation of the record decides between them.
    - Different sessions have different names. The hash includes the length of the principal, so no two pairs join to
      the same text.
    """
    identity = f"{len(principal)}:{principal}:{client_session_id}"
    return RecordName(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40])


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID in its canonical form: lower case, with hyphens."""
    return _UUID.fullmatch(text) is not None


def is_record_name(text: str) -> bool:
    """Return whether a text has the form of the name of a session record."""
    return _RECORD_NAME.fullmatch(text) is not None


def is_replica_id(text: str) -> bool:
    """Return whether a text can name a lease, as a file and on Kubernetes."""
    return _REPLICA_ID.fullmatch(text) is not None


def check_uuid(uuid: str) -> str:
    """Return a UUID if it is canonical.

    Raises:
        ValueError: If it is not.
    """
    if not is_uuid(uuid):
        raise ValueError(f"Not a UUID in lower case with hyphens: {uuid!r}")
    return uuid


def check_record_name(name: RecordName) -> RecordName:
    """Return the name of a session record if it is valid.

    Raises:
        ValueError: If it is not.
    """
    if not is_record_name(name):
        raise ValueError(f"Not the name of a session record: {name!r}")
    return name


def check_replica_id(replica: ReplicaId) -> ReplicaId:
    """Return a replica id if it is valid.

    Raises:
        ValueError: If it is not.
    """
    if not is_replica_id(replica):
        raise ValueError(f"Not a replica id (lower-case letters, digits, '-' and '.' inside): {replica!r}")
    return replica
