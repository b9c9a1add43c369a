"""Signs the scans of this replica, so that engines run them. See :mod:`engine.scan_signature`.

Each replica has a key of its own, which ends with its process. The key remains in the sessions of backends, so views
that one replica has created can be read after another one has adopted the session.
"""

import os
from functools import cache

from pyspark.sql.connect.proto import relations_pb2

from engine.scan_signature import ID_BYTES, KEY_BYTES, SIGNATURE, ScanKey, sign


@cache
def scan_key() -> ScanKey:
    """Return the key of this process."""
    return ScanKey(os.urandom(ID_BYTES).hex(), os.urandom(KEY_BYTES))


def sign_scan(source: relations_pb2.Read.DataSource) -> None:
    """Sign the options of a scan, in place. Later changes of the options make the signature invalid."""
    source.options[SIGNATURE] = sign(source.options, scan_key())


def is_signed_text(text: str) -> bool:
    """Return whether a SQL text contains options that this replica has signed."""
    return f"{scan_key().id}:" in text
