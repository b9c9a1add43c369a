"""What a run says of tests that cannot run here (tests.left_out)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TESTS = """
import pytest
from tests.left_out import leave_out

@pytest.mark.parametrize("number", range(2))
def test_that_needs_something(number):
    leave_out("There is no such thing.")

def test_that_needs_nothing():
    pass
"""


@pytest.mark.parametrize(("ci", "code", "told"), [("", 0, "1 passed, 2 skipped"), ("true", 1, "2 failed, 1 passed")])
def test_what_is_left_out_is_said_loudly_and_fails_in_ci(tmp_path: Path, ci: str, code: int, told: str) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.left_out", "--rootdir", tmp_path, tmp_path]
    environment = os.environ | {"CI": ci, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert told in done.stdout
    assert ("LEFT OUT: 2 tests. There is no such thing." in done.stdout) == (not ci)
