"""Client sessions for scans, and Python environments with Spark and without Lodge."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pyspark.sql.connect.session import SparkSession

from tests.cache import hold_lock, user_cache
from tests.conftest import REPOSITORY

ENVIRONMENTS = REPOSITORY / "build" / "environments"
SLOW_COPY = "lib/python*/site-packages/pyspark/python/lib/pyspark.zip"
"""A second copy of PySpark, which Spark's Python processes prefer, and compile each time."""


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> SparkSession:
    return shared_spark


@pytest.fixture
def own_spark(connect: Callable[[], SparkSession]) -> SparkSession:
    """A session that ends with the test. Most tests that change a session can use ``restored_spark``."""
    return connect()


@pytest.fixture(scope="session")
def python_environment() -> Callable[..., Path]:
    """Create Python environments with the given packages.

    The function takes requirements, and returns the Python of the environment. Packages without a version are those of
    the environment of the tests, as hard links in the build directory. Otherwise pip installs all packages in the
    user's cache directory, where they survive the checkout.
    """

    def create(requirements: Sequence[str]) -> Path:
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

    return create


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
