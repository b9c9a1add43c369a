import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lodge.reap import period_seconds_of
from lodge.settings import ReapSettings
from workspace.locations import SessionLocations
from workspace.records import SessionUuid

Eventually = Callable[[Callable[[], object], str], None]


@pytest.mark.parametrize(
    ("lease", "grace", "period_seconds"), [("15s", "60s", 5), ("1s", "100ms", 0.2), ("5m", "1h", 10), ("9s", "3s", 1)]
)
def test_three_passes_fit_into_the_shorter_time_within_bounds(lease: str, grace: str, period_seconds: float) -> None:
    settings = ReapSettings.model_validate({"lease_duration": lease, "grace_period": grace})
    assert period_seconds_of(settings) == pytest.approx(period_seconds)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_orphan_is_removed_after_the_grace_period_and_a_signal_ends_the_reaper(
    lodge: Any, tmp_path: Path, eventually: Eventually, number: signal.Signals
) -> None:
    root = tmp_path / "tmp"
    locations = SessionLocations(root)
    locations.initialise()
    orphan = locations.create(SessionUuid(str(uuid.uuid4())))
    (orphan / "data").write_text("data")
    log = tmp_path / "log"
    process = lodge.start(
        "reap", f"--workspace=dfs.tmp={root.as_uri()}", "--lease-duration=300ms", "--grace-period=300ms", log=log
    )
    eventually(lambda: not orphan.exists(), "the orphan is gone")
    eventually(lambda: "orphan_location_deleted" in log.read_text(), "the log tells of it")
    process.send_signal(number)
    assert process.wait(30) == 0
    assert "reaper_stopped" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_a_workspace_that_does_not_let_lodge_write_is_one_line(lodge: Any, tmp_path: Path) -> None:
    (tmp_path / ".lodge").write_text("a file in the place of a directory")
    done = lodge.run("reap", f"--workspace=dfs.tmp={tmp_path.as_uri()}")
    assert done.returncode == 1
    assert done.stderr.startswith("lodge: The workspace [dfs.tmp] cannot be used: ")
    assert done.stderr.count("\n") == 1
