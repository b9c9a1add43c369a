"""The compact text form of a list of files, in which a plan carries the files of its scan.

The text is compressed, because the paths of a directory are similar.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Sequence

from engine.errors import ScanOptionError
from engine.storage.listed_file import ListedFile

FILES = "files"
"""The option of the data source that contains the list."""

_MAX_TEXT_BYTES = 1024 * 1024 * 1024
"""The maximum size of the uncompressed list, for about ten million files."""


def pack_files(files: Sequence[ListedFile]) -> str:
    """Return the text form of a list of files."""
    rows = [(file.path, file.size_bytes, file.version) for file in files]
    return base64.b64encode(zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), level=6)).decode()


def unpack_files(text: str) -> Sequence[ListedFile]:
    """Return the list of files that :func:`pack_files` wrote.

    Raises:
        ScanOptionError: If the text is not such a list.
    """
    try:
        compressed = zlib.decompressobj()
        unpacked = compressed.decompress(base64.b64decode(text, validate=True), _MAX_TEXT_BYTES)
        rows = json.loads(unpacked if compressed.eof else b"")
        return [ListedFile(str(path), int(size_bytes), str(version)) for path, size_bytes, version in rows]
    except (binascii.Error, zlib.error, ValueError, TypeError, RecursionError):
        raise ScanOptionError(FILES, "is not a list of files that Lodge wrote") from None
