"""Real ``lodge`` processes, each with its own working directory and state directory."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.processes import DIES_WITH_PARENT

DEADLINE_SECONDS = 120


@dataclass
class Lodge:
    """Runs the command ``lodge`` without the settings in the environment of the tests."""

    directory: Path
    state: Path
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run the command until it ends."""
        return subprocess.run(
            [sys.executable, "-m", "lodge", *arguments],
            cwd=self.directory,
            env=self._environment(variables),
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def start(self, *arguments: str, log: Path, **variables: str) -> "subprocess.Popen[str]":
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [*DIES_WITH_PARENT, sys.executable, "-m", "lodge", *arguments],
                cwd=self.directory,
                env=self._environment(variables),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.started.append(process)
        return process

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LODGE_")}
        kept.pop("KUBERNETES_SERVICE_HOST", None)
        return kept | {"XDG_STATE_HOME": str(self.state)} | variables


@pytest.fixture
def no_settings_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leave no settings but those that a test gives: none in the environment, none in the working directory."""
    for name in ("KUBERNETES_SERVICE_HOST", "LODGE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def lodge(tmp_path: Path) -> Iterator[Lodge]:
    with lodge_in(tmp_path) as lodge:
        yield lodge


@contextmanager
def lodge_in(directory: Path) -> Iterator[Lodge]:
    """Yield a `Lodge` with its directories in this one, and end its processes."""
    lodge = Lodge(directory / "here", directory / "state")
    lodge.directory.mkdir()
    try:
        yield lodge
    finally:
        for process in lodge.started:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], object], str], None]:
    """Wait until a condition is true, and fail with the description if that takes too long."""

    def wait(holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
            time.sleep(0.05)

    return wait
