"""Python environments with Spark and without Lodge."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.cache import hold_lock, user_cache

ENVIRONMENTS = Path(__file__).parents[1] / "build" / "environments"
SLOW_COPY = "lib/python*/site-packages/pyspark/python/lib/pyspark.zip"
"""A second copy of PySpark, which Spark's Python processes prefer, and compile each time."""


def python_environment(requirements: Sequence[str]) -> Path:
    """Create a Python environment with the given packages, and return its Python.

    Packages without a version are those of the environment of the tests, as hard links in the build directory.
    Otherwise pip installs all packages in the user's cache directory, where they survive the checkout.
    """
    are_here = not any("==" in one for one in requirements)
    place = ENVIRONMENTS if are_here else user_cache() / "environments" / sys.implementation.cache_tag
    directory = place / "-".join(sorted(requirements)).replace("==", "-")
    installed = directory / "bin" / "python"
    place.mkdir(parents=True, exist_ok=True)
    with hold_lock(place / ".lock"):
        if not (directory / ".installed").exists():
            shutil.rmtree(directory, ignore_errors=True)
            without_pip = ["--without-pip"] if are_here else []
            subprocess.run([sys.executable, "-m", "venv", *without_pip, directory], check=True)
            if are_here:
                (site,) = directory.glob("lib/python*/site-packages")
                link_packages(requirements, site)
            else:
                pip = [installed, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
                subprocess.run([*pip, *requirements], check=True)
            (directory / ".installed").touch()
        for copy in directory.glob(SLOW_COPY):
            copy.unlink()
    return installed


def link_packages(names: Sequence[str], site: Path) -> None:
    """Link the files of packages, and of those that they require, into an environment."""
    waiting, linked = list(names), set[str]()
    while waiting:
        package = distribution(waiting.pop())
        if package.name in linked:
            continue
        linked.add(package.name)
        needed = [Requirement(text) for text in package.requires or ()]
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
        for file in package.files or ():
            is_script = ".." in file.parts
            if not is_script:
                target = site / file
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(Path(str(package.locate_file(file))), target)
