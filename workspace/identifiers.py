"""The identifiers of sessions, tables and replicas, and their validation.

Session UUIDs, record names and replica ids come from requests, records and files of other processes. Before such an
identifier is used in a path, it must pass one of the ``check_…`` functions. This ensures that no identifier refers to
a file outside its directory.

Guarantees for every identifier that a ``check_…`` function returns:

1. The identifier is a single path component. It is not empty, has no separator, leading dot or NUL character, and has
   at most 200 ASCII characters.
2. The identifier has no upper-case letters. Therefore, two different identifiers are also different on a file system
   that ignores case.
3. The identifier is returned unchanged. All other arguments raise ValueError.
"""

import hashlib
import re
from typing import NewType

Principal = NewType("Principal", str)
"""The authenticated identity of a client. Currently, the ``user_id`` that the client sends."""

ClientSessionId = NewType("ClientSessionId", str)
"""The session id that a client chose. It is unique only for its principal, and is never used in a path."""

SessionUuid = NewType("SessionUuid", str)
"""The random UUID that is the name of a session location. The gateway generates it."""

TableUuid = NewType("TableUuid", str)
"""The random UUID that is the name of a table's directory in the session location."""

ReplicaId = NewType("ReplicaId", str)
"""The id of a gateway replica. Each start of the process generates a new id."""

RecordName = NewType("RecordName", str)
"""The name of a record in the storage; see :func:`record_name`."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RECORD_NAME = re.compile(r"[0-9a-f]{40}")
_REPLICA_ID = re.compile(r"[a-z0-9]([a-z0-9.-]{0,198}[a-z0-9])?")


def record_name(principal: Principal, client_session_id: ClientSessionId) -> RecordName:
    """Return the name of a session's record.

    - The name always has 40 characters of ``[0-9a-f]``. Therefore, it is a valid file name and Kubernetes object name.
    - The name of a session's record is always the same. If two replicas receive the first requests of a session at the
      same time, only one of them can create the record.
    - Different sessions have different names. The hash includes the length of the principal, so two different pairs of
      principal and client session id never result in the same string.
    """
    identity = f"{len(principal)}:{principal}:{client_session_id}"
    return RecordName(hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:40])


def is_uuid(text: str) -> bool:
    """Return whether a string is a UUID in canonical form.

    The canonical form has lower-case digits and hyphens.
    """
    return _UUID.fullmatch(text) is not None


def is_record_name(text: str) -> bool:
    """Return whether a string has the form of a session record's name."""
    return _RECORD_NAME.fullmatch(text) is not None


def is_replica_id(text: str) -> bool:
    """Return whether a string is a valid replica id.

    A valid replica id can be used in the name of a lease, both as a file and on Kubernetes.
    """
    return _REPLICA_ID.fullmatch(text) is not None


def check_file_name(name: str) -> str:
    """Return the name of a file after checking that it is not a path.

    Raises:
        ValueError: If the name is empty or has a slash or a null character, or is a dot or two.
    """
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise ValueError(f"The name {name!r} is not that of a file.")
    return name


def check_uuid(uuid: str) -> str:
    """Return a UUID after checking that it is canonical.

    Raises:
        ValueError: If the UUID is not in canonical form.
    """
    if not is_uuid(uuid):
        raise ValueError(f"The UUID {uuid!r} is not valid: it must have lower-case hexadecimal digits and hyphens.")
    return uuid


def check_record_name(name: RecordName) -> RecordName:
    """Return the name of a session record after checking that it is valid.

    Raises:
        ValueError: If the name is not valid.
    """
    if not is_record_name(name):
        raise ValueError(f"The session record name {name!r} is not valid: it must have 40 hexadecimal digits.")
    return name


def check_replica_id(replica: ReplicaId) -> ReplicaId:
    """Return a replica id after checking that it is valid.

    Raises:
        ValueError: If the replica id is not valid.
    """
    if not is_replica_id(replica):
        raise ValueError(
            f"The replica id {replica!r} is not valid: it must consist of at most 200 lower-case letters, digits, '-' "
            "and '.', and begin and end with a letter or digit."
        )
    return replica
