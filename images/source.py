"""The source of the images: the files from which they are built, and the labels that name it.

Guarantees:

1. `key` changes if a file changes that can change an image, and does not depend on other files, times or directories.
2. `labels` depends only on these files and on the commits that changed them.
"""

import hashlib
import os
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]

_BUILD_FILES = ("Containerfile", ".containerignore", "images", "tests/cluster/programs/go/go.mod")


def version() -> str:
    """Return the version of Lodge."""
    project: Mapping[str, str] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return project["version"]


def key(*settings: str) -> str:
    """Return a digest of the source and of the settings of a build."""
    digest = hashlib.sha256()
    for path in sorted(_files()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(REPOSITORY)} {path.stat().st_mode & 0o111:o} {content}\n".encode())
    digest.update("\0".join(settings).encode())
    return digest.hexdigest()[:16]


def labels(source: str | None = None) -> Mapping[str, str]:
    """Return the labels of an image that name its source and the time of its last change.

    Args:
        source: The URL of the source.
    """
    paths = _paths()
    found = {"version": version()}
    if source:
        found["source"] = source
    created = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct", "--", *paths)
    if created:
        found["created"] = datetime.fromtimestamp(int(created), UTC).isoformat()
    if revision := _git("log", "-1", "--format=%H", "--", *paths):
        found["revision"] = revision + ("-dirty" if _git("status", "--porcelain", "--", *paths) else "")
    return {f"org.opencontainers.image.{name}": value for name, value in found.items()}


def _paths() -> Sequence[str]:
    """Return the files and directories of the source: those that the build context includes, and the builder."""
    lines = (REPOSITORY / ".containerignore").read_text().splitlines()
    included = {line[1:].rstrip("/") for line in lines if line.startswith("!")}
    return sorted(included.union(_BUILD_FILES))


def _files() -> Iterator[Path]:
    for name in _paths():
        path = REPOSITORY / name
        if path.is_dir():
            yield from (file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        else:
            yield path


def _git(*arguments: str) -> str:
    """Return the output of git; empty outside a repository."""
    command = ["git", "-C", str(REPOSITORY), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
