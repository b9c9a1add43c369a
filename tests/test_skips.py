"""How a run reports tests that it skips (tests.skips)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TESTS = """
import pytest
from tests.skips import skip_missing

@pytest.mark.parametrize("number", range(2))
def test_with_a_requirement(number):
    skip_missing("The tool is missing.")

def test_without_requirements():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "code", "outcome"), [("", 0, "1 passed, 2 skipped"), ("true", 1, "2 failed, 1 passed")])
def test_run_lists_skipped_tests_and_fails_in_ci(tmp_path: Path, ci: str, code: int, outcome: str) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "--rootdir", tmp_path, tmp_path]
    environment = os.environ | {"CI": ci, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert outcome in done.stdout
    assert ("SKIPPED: 2 tests. The tool is missing." in done.stdout) == (not ci)
