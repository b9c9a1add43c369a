"""Names under which Spark adds files and archives of a client to its session.

Spark unpacks an archive into the directory that its name gives after ``#``. It decodes percent-encoded characters in
this name, does not check it, and deletes the directory first. So a client could delete each directory that the user of
Spark may delete, and could add a key that signs scans.
"""

import posixpath
from urllib.parse import unquote

from engine.scan_signature import KEY_FILE
from gateway.authorization.path_fence import MAX_PATH_CHARACTERS

_MAX_DECODINGS = 8


def can_name_key(name: str) -> bool:
    """Return whether a name, or what it means when it is decoded, contains the name of a key that signs scans."""
    return KEY_FILE in _decoded(name)


def unpacks_elsewhere(name: str) -> bool:
    """Return whether Spark may unpack an archive into another directory than one of its own in the session."""
    _, has_fragment, fragment = name.partition("#")
    if not has_fragment:
        return False
    directory = posixpath.normpath(_decoded(fragment).replace("\\", "/").replace("#", "/").lstrip("/"))
    return directory == "." or directory.split("/")[0] == ".."


def _decoded(name: str) -> str:
    """Return a name without percent-encoded characters. A name that is too long for a path is not decoded."""
    if len(name) > MAX_PATH_CHARACTERS:
        return name
    for _ in range(_MAX_DECODINGS):
        if "%" not in name:
            break
        name = unquote(name)
    return name
