"""The source files of the engine, and a fingerprint that identifies this version of the engine.

A gateway uses the fingerprint to find out whether a backend has the same engine. A backend has the same engine if all
source files are equal.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

from engine.errors import EngineError

ENGINE = "engine"
"""The option with the fingerprint that the engine must have. With this option, a scan reads nothing."""


class OtherEngineError(EngineError):
    """Raised if the engine is not the engine that a gateway needs."""

    condition = "LODGE_OTHER_ENGINE"
    sql_state = "58000"

    def __init__(self) -> None:
        super().__init__(
            "The backend has another version of Lodge than the gateway. Install the same version, or remove Lodge from "
            "the backend."
        )


@cache
def source_files() -> Mapping[str, bytes]:
    """Return the source files of the engine by their path, such as ``engine/spark.py``."""
    package = __name__.partition(".")[0]
    return MappingProxyType(dict(sorted(_find(files(package), package))))


@cache
def fingerprint() -> str:
    """Return the fingerprint of this engine."""
    digest = sha256()
    for path, source in source_files().items():
        digest.update(b"%s\0%d\0%s" % (path.encode(), len(source), source))
    return digest.hexdigest()[:32]


def require_engine(wanted: str) -> None:
    """Check that this is the engine that a gateway needs.

    Raises:
        OtherEngineError: If it is another engine.
    """
    if wanted != fingerprint():
        raise OtherEngineError


def _find(directory: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for child in directory.iterdir():
        name = f"{path}/{child.name}"
        if child.is_dir():
            yield from _find(child, name)
        elif child.name.endswith(".py"):
            yield name, child.read_bytes()
