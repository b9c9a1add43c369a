"""Workspaces (guarantees: workspace.workspaces)."""

import os
from pathlib import Path

import pytest

from workspace.workspaces import PathRefusedError, Workspaces, WorkspaceSettingError

SESSION = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a workspace that contains all others."""
    for name in ("now", "before", "plain"):
        (tmp_path / name / SESSION).mkdir(parents=True)
        (tmp_path / name / ".lodge").mkdir()
        (tmp_path / name / "file").write_text("data")
    return tmp_path


@pytest.fixture
def workspaces(data: Path) -> Workspaces:
    uris = {"data": data.as_uri(), "dfs.tmp": (data / "now").as_uri()}
    return Workspaces.from_uris(uris, "dfs.tmp")


def is_refused(workspaces: Workspaces, path: str) -> bool:
    try:
        workspaces.resolve(workspaces.by_name["data"], path)
    except PathRefusedError:
        return True
    return False


def test_guarantee_3_own_files_are_refused_in_current_and_former_roots(data: Path, workspaces: Workspaces) -> None:
    own = [f"{root}{part}" for root in ("now", "before") for part in ("", "/.lodge", f"/{SESSION}")]
    assert [path for path in own if is_refused(workspaces, path)] == own[:3]
    moved = workspaces.with_former_roots([data / "now", data / "before"])
    assert moved.temporary_roots == (data / "now", data / "before")
    assert [path for path in own if is_refused(moved, path)] == own
    for path in ("plain", f"plain/{SESSION}", "now/file", "before/file"):
        assert not is_refused(moved, path)


def test_with_former_roots_replaces_all_and_omits_the_current_root(data: Path, workspaces: Workspaces) -> None:
    moved = workspaces.with_former_roots([data / "before"]).with_former_roots([data / "now"])
    assert moved == workspaces


def test_only_temporary_and_named_workspaces_are_writable(data: Path) -> None:
    uris = {name: data.as_uri() for name in ("dfs.tmp", "a", "b")}
    found = Workspaces.from_uris(uris, "dfs.tmp", ["b"])
    assert [name for name, workspace in found.by_name.items() if workspace.is_writable] == ["dfs.tmp", "b"]
    with pytest.raises(WorkspaceSettingError, match=r"writable workspace \[c\] is not among .*\[a\]"):
        Workspaces.from_uris(uris, "dfs.tmp", ["c"])


def test_root_that_cannot_be_read_is_an_error_of_its_workspace(data: Path) -> None:
    """A name that is too long fails in the same call as a disconnected file system."""
    with pytest.raises(WorkspaceSettingError, match=r"\[dfs.tmp\] cannot be used now: .* \(File name too long\)"):
        Workspaces.from_uris({"dfs.tmp": (data / ("a" * 300)).as_uri()}, "dfs.tmp")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_writable_workspace_must_be_writable(data: Path) -> None:
    closed = data / "closed"
    closed.mkdir(mode=0o500)
    uris = {"dfs.tmp": data.as_uri(), "a": closed.as_uri()}
    Workspaces.from_uris(uris, "dfs.tmp")
    with pytest.raises(WorkspaceSettingError, match=r"\[a\] is not writable"):
        Workspaces.from_uris(uris, "dfs.tmp", ["a"])


def test_workspace_at_the_beginning_of_a_name_is_found(workspaces: Workspaces) -> None:
    """Names can have any number of parts, of any length. A quadratic search would not end in the time of a test."""
    temporary = workspaces.temporary
    first, _, second = temporary.name.partition(".")
    assert workspaces.match([first, second, "t"]) == (temporary, 2)
    assert workspaces.match([first.upper(), second.upper()]) == (temporary, 2)
    assert workspaces.match([temporary.name, "t"]) == (temporary, 1)
    assert workspaces.match([first, second] + ["a"] * 1_000_000) == (temporary, 2)
    assert workspaces.match(["a"] * 1_000_000) is None
    assert workspaces.match(["a" * 1_000_000, second]) is None
    assert workspaces.match([]) is None
