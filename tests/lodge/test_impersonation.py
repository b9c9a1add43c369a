"""The checks before session locations can belong to other OS users."""

import errno
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lodge.command_errors import SettingError, StartError
from lodge.impersonation import check_impersonation
from lodge.settings import ServeSettings
from lodge.workspace_settings import workspaces_from

as_root = pytest.mark.needs_root


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that all users can reach; those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="lodge-test-") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path


def check(root: Path, **given: Any) -> None:
    settings = ServeSettings.model_validate(
        {"workspace": {"dfs.tmp": root.as_uri()}, "principal_backend": {"ada": "sc://h:1"}, **given}
    )
    check_impersonation(settings, workspaces_from(settings))


@as_root
def test_reachable_root_passes_and_the_check_leaves_nothing(open_directory: Path) -> None:
    check(open_directory)
    assert [path.name for path in open_directory.iterdir()] == [".lodge"]
    assert not list((open_directory / ".lodge" / "trash").iterdir())
    assert (open_directory / ".lodge").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("mode", "advice"), [(0o700, "chmod 711"), (0o710, "chmod 711"), (0o775, "chmod 711")])
def test_root_with_wrong_mode_is_refused_with_instruction(open_directory: Path, mode: int, advice: str) -> None:
    root = open_directory / "root"
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(StartError, match=advice) as failed:
        check(root)
    assert str(root) in str(failed.value)


def test_parent_directory_that_others_cannot_pass_is_named(open_directory: Path) -> None:
    closed = open_directory / "closed"
    (closed / "root").mkdir(parents=True)
    (closed / "root").chmod(0o711)
    closed.chmod(0o700)
    with pytest.raises(StartError, match=rf"may not pass \[{closed}\]"):
        check(closed / "root")


def test_missing_principal_backends_are_a_setting_error(open_directory: Path) -> None:
    with pytest.raises(SettingError, match="--principal-backend"):
        check(open_directory, principal_backend={})


@pytest.mark.parametrize("refused", ["fchown", "fchmod"])
def test_process_without_right_to_give_files_away_is_refused(open_directory: Path, refused: str) -> None:
    with (
        mock.patch(f"os.{refused}", side_effect=PermissionError(1, "Operation not permitted")),
        pytest.raises(StartError, match="CAP_CHOWN"),
    ):
        check(open_directory)


def test_full_disk_does_not_prevent_the_start(open_directory: Path) -> None:
    with mock.patch("pathlib.Path.mkdir", side_effect=OSError(errno.ENOSPC, "No space left on device")):
        check(open_directory)


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("capability", ["chown", "fowner", "dac_override"])
def test_missing_capability_stops_the_start(open_directory: Path, capability: str) -> None:
    drop = ["setpriv", f"--bounding-set=-{capability}", f"--inh-caps=-{capability}"]
    options = [f"--workspace=dfs.tmp={open_directory.as_uri()}", "--impersonation", "--principal-backend=ada=sc://h:1"]
    done = subprocess.run(
        [*drop, sys.executable, "-m", "lodge", "serve", "--listen=127.0.0.1:0", "--no-reaper", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert done.returncode == 1, done.stderr
    assert f"Impersonation needs permission to give files in [{open_directory}] to other users" in done.stderr
    assert "Traceback" not in done.stderr


@as_root
def test_default_root_can_be_passed_by_others(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(open_directory))
    settings = ServeSettings.model_validate({"impersonation": True, "principal_backend": {"ada": "sc://h:1"}})
    workspaces = workspaces_from(settings)
    assert workspaces.temporary.root.stat().st_mode & 0o777 == 0o711
    check_impersonation(settings, workspaces)
