"""Real ``lodge`` processes, each with its own working directory and state directory."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest

from tests.cluster.processes import DIES_WITH_PARENT
from tests.lodge_forks import ForkedLodge

DEADLINE_SECONDS = 120


class StartedLodge(ForkedLodge):
    """A running ``lodge``.

    Attributes:
        stdout: Its standard output.
    """

    def __init__(self, arguments: Sequence[str], directory: Path, output: Path, errors: Path) -> None:
        os.mkfifo(output)
        super().__init__(arguments, directory, output, errors)
        self.stdout = output.open()


@dataclass
class Lodge:
    """Runs ``lodge`` without the settings in the environment of the tests."""

    directory: Path
    state: Path
    started: list["StartedLodge | subprocess.Popen[str]"] = field(default_factory=list)

    def run(self, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a fork until it ends."""
        output, errors = self._new_file("out"), self._new_file("err")
        with self._settings(variables):
            process = ForkedLodge(arguments, self.directory, output, errors)
        try:
            status = process.wait(DEADLINE_SECONDS)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, status, output.read_text(), errors.read_text())

    def start(self, *arguments: str, log: Path, **variables: str) -> StartedLodge:
        """Start a fork."""
        log.write_text("")
        with self._settings(variables):
            process = StartedLodge(arguments, self.directory, self._new_file("fifo"), log)
        self.started.append(process)
        return process

    def start_command(self, *arguments: str, log: Path, **variables: str) -> "subprocess.Popen[str]":
        """Start the command itself."""
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

    @contextmanager
    def _settings(self, variables: dict[str, str]) -> Iterator[None]:
        with mock.patch.dict(os.environ, self._environment(variables), clear=True):
            yield

    def _new_file(self, suffix: str) -> Path:
        return self.directory.parent / f"lodge-{secrets.token_hex(4)}.{suffix}"

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
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], object], str], None]:
    """Wait until a condition is true, and fail with the description if that takes too long."""

    def wait(holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS} s: {what}"
            time.sleep(0.05)

    return wait
