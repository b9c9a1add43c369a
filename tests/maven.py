"""Jars that Maven fetches into the user's cache."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.cache import hold_lock, user_cache

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class MissingMavenError(Exception):
    """Maven is not installed."""


def fetch_jars(name: str, pom: Path, *options: str) -> Path:
    """Return a directory with the dependencies of a POM. The first call fetches them.

    Args:
        name: The name of the dependencies in the user's cache.
        pom: The POM.
        options: Further options for the goal ``dependency:copy-dependencies``.

    Raises:
        MissingMavenError: Maven is not installed.
        CalledProcessError: Maven failed.
    """
    key = hashlib.sha256(pom.read_bytes() + "".join(options).encode()).hexdigest()[:12]
    target = user_cache() / name / key
    target.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(target.parent / ".lock"):
        if not target.exists():
            _fetch(target, pom, options)
    return target


def _fetch(target: Path, pom: Path, options: tuple[str, ...]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingMavenError(f"Maven is missing and cannot fetch the jars of [{pom}]. Install Maven.")
    partly = target.with_name(f".{target.name}")
    shutil.rmtree(partly, ignore_errors=True)
    repository = f"-Dmaven.repo.local={target.parent / 'repository'}"
    subprocess.run(
        [maven, "-q", "-B", "-f", pom, repository, _PLUGIN, f"-DoutputDirectory={partly}", *options],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ,
    )
    partly.rename(target)
