"""Python environments with Spark and without Lodge."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ENVIRONMENTS = REPOSITORY / "build" / "environments"


@pytest.fixture(scope="session")
def python_environment() -> Callable[..., Path]:
    """Create Python environments with the given packages, which stay in the build directory.

    The function takes requirements, and returns the Python of the environment.
    """

    def create(requirements: Sequence[str]) -> Path:
        directory = ENVIRONMENTS / "-".join(sorted(requirements)).replace("==", "-")
        installed = directory / "bin" / "python"
        if not (directory / ".installed").exists():
            shutil.rmtree(directory, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", directory], check=True)
            constraints = ["-c", REPOSITORY / "constraints.txt"] if "pyspark" in requirements else []
            pip = [installed, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *constraints]
            subprocess.run([*pip, *requirements], check=True)
            (directory / ".installed").touch()
        return installed

    return create
