"""Signatures of scans: only the gateway can plan a scan that a backend runs.

A scan reads the files that its options name, with the permissions of Spark. A client can send any options to the data
source: through the API, SQL texts, defaults and variables. Therefore the gateway signs the options of its scans, and
the engine refuses all others. The key is a file of the client's session at the backend, which only the gateway can
add. The name of the file contains the id of the key, because each replica of the gateway has a key of its own.

Guarantees:

1. :func:`check_signature` accepts exactly the options that :func:`sign` returned for the same key. Only the case and
   the order of the names may change.
2. A process without gateway accepts scans without a signature if its environment says so (``WITHOUT_GATEWAY``).

Not guaranteed: code of a client that runs in Spark's Python processes can read the key, and the files themselves.
"""

import hashlib
import hmac
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import EngineError

SIGNATURE = "signature"
"""The option with the id of the key and the signature, separated by a colon."""

KEY_FILE = "lodge-scan-key-"
"""The start of the names of files with keys. The id of the key follows."""

WITHOUT_GATEWAY = "LODGE_WITHOUT_GATEWAY"
"""The environment variable of Spark's driver with which the engine accepts scans that no gateway has signed."""

ID_BYTES, KEY_BYTES = 16, 32
_KEY_ID = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")


class UnsignedScanError(EngineError):
    """Raised if no gateway has planned a scan."""

    condition = "LODGE_SCAN_NOT_SIGNED"
    sql_state = "42501"

    def __init__(self) -> None:
        super().__init__(
            "The gateway has not planned this scan with Lodge's data source. Name the path of a workspace in the "
            f"statement, such as dfs.`a.csv`. Without a gateway, set {WITHOUT_GATEWAY}=true in the environment of "
            "Spark's driver."
        )


@dataclass(frozen=True, slots=True)
class ScanKey:
    """A key that signs scans.

    Attributes:
        id: 32 hexadecimal digits.
        secret: `KEY_BYTES` random bytes.
    """

    id: str
    secret: bytes = field(repr=False)

    @property
    def file_name(self) -> str:
        return KEY_FILE + self.id


def is_without_gateway() -> bool:
    """Return whether this process accepts scans that no gateway has signed."""
    return os.environ.get(WITHOUT_GATEWAY, "").lower() == "true"


def sign(options: Mapping[str, str], key: ScanKey) -> str:
    """Return the value of the option ``SIGNATURE`` for the other options."""
    return f"{key.id}:{_digest(options, key.secret)}"


def check_signature(options: Mapping[str, str], directory: Path) -> None:
    """Check that a gateway has planned a scan.

    Args:
        options: The options of the scan.
        directory: The directory with the files of the session.

    Raises:
        UnsignedScanError: If it has not.
    """
    given = next((value for name, value in options.items() if name.lower() == SIGNATURE), "")
    id_, _, digest = given.partition(":")
    secret = _read_key(directory, id_) if _KEY_ID.fullmatch(id_) else None
    if secret is None or not hmac.compare_digest(_digest(options, secret).encode(), digest.encode()):
        raise UnsignedScanError


def _digest(options: Mapping[str, str], secret: bytes) -> str:
    signed = sorted((name.lower(), value) for name, value in options.items() if name.lower() != SIGNATURE)
    return hmac.new(secret, json.dumps(signed).encode(), hashlib.sha256).hexdigest()


def _read_key(directory: Path, id_: str) -> bytes | None:
    path = directory / f"{KEY_FILE}{id_}"
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            secret = file.read(KEY_BYTES + 1)
    except OSError:
        return None
    return secret if len(secret) == KEY_BYTES else None
