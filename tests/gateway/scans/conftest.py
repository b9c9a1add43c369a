"""Python environments with Spark and without Lodge."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ENVIRONMENTS = REPOSITORY / "build" / "environments"


@pytest.fixture(scope="session")
def python_environment() -> Callable[..., Path]:
    """Create Python environments with the given packages, which stay in the build directory.

    The function takes requirements and the name of a Python program, and returns the Python of the environment.
    """

    def create(requirements: Sequence[str], python: str = "python3.11") -> Path:
        program = shutil.which(python)
        if program is None or subprocess.run([program, "--version"], check=False, capture_output=True).returncode:
            pytest.skip(f"needs {python}")
        directory = ENVIRONMENTS / "-".join((python, *sorted(requirements))).replace("==", "-")
        installed = directory / "bin" / "python"
        if not (directory / ".installed").exists():
            shutil.rmtree(directory, ignore_errors=True)
            subprocess.run([program, "-m", "venv", directory], check=True)
            constraints = ["-c", REPOSITORY / "constraints.txt"] if "pyspark" in requirements else []
            pip = [installed, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *constraints]
            subprocess.run([*pip, *requirements], check=True)
            (directory / ".installed").touch()
        return installed

    return create
