"""Settings for a default temporary workspace in an object store; see ``docs/how-to/object-storage.md``."""

from pathlib import Path

import pytest

from lodge.command_errors import SettingError
from lodge.impersonation import check_impersonation
from lodge.reaper_process import environment_for
from lodge.settings import ReapSettings
from lodge.workspace_settings import open_locations, workspaces_from
from tests.lodge.arguments import read
from workspace.files.session_locations import FileSessionLocations
from workspace.object_store.session_locations import ObjectSessionLocations

URI = "s3://bucket/lodge?endpoint_override=127.0.0.1%3A9000&scheme=http&region=us-east-1"
WORKSPACE = ("--workspace", f"dfs.tmp={URI}")
pytestmark = pytest.mark.usefixtures("no_settings_outside")


def test_session_records_cannot_be_in_an_object_store() -> None:
    with pytest.raises(SettingError, match=r"\[dfs\.tmp\] is in an object store.*--records kubernetes"):
        workspaces_from(read(*WORKSPACE))
    workspaces = workspaces_from(read(*WORKSPACE, "--records", "kubernetes"))
    assert (workspaces.temporary.storage_path, workspaces.temporary.uri) == ("s3://bucket/lodge", URI)


def test_credentials_in_the_uri_are_refused(tmp_path: Path) -> None:
    for uri in ("s3://KEY:SECRET@bucket/lodge", "s3://bucket/lodge?secret_key=SECRET"):
        with pytest.raises(SettingError) as refused:
            workspaces_from(read("--workspace", f"dfs.tmp={uri}", "--records", "kubernetes"))
        assert "SECRET" not in str(refused.value)


def test_writable_workspaces_cannot_be_in_an_object_store(tmp_path: Path) -> None:
    lake = ("--workspace", "lake=s3://bucket/data", "--workspace", f"dfs.tmp={tmp_path.as_uri()}")
    assert workspaces_from(read(*lake)).by_name["lake"].uri == "s3://bucket/data"
    with pytest.raises(SettingError, match=r"\[lake\] must be file-based, because statements may write to it"):
        workspaces_from(read(*lake, "--writable-workspace", "lake"))


def test_credentials_in_the_uri_of_a_source_are_refused(tmp_path: Path) -> None:
    for uri in ("s3://KEY:SECRET@bucket", "abfss://c:SECRET@account.dfs.core.windows.net", "gs://b?token=SECRET"):
        with pytest.raises(SettingError, match=r"The URI of workspace \[lake\]") as refused:
            workspaces_from(read("--workspace", f"lake={uri}", "--workspace", f"dfs.tmp={tmp_path.as_uri()}"))
        assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("uri", ["s3://bucket", "s3://bucket/lodge", "s3://bucket/lodge/x?region=eu-central-1"])
def test_source_may_not_overlap_with_the_temporary_workspace(uri: str) -> None:
    with pytest.raises(SettingError, match=r"\[lake\] overlaps with the temporary workspace \[dfs.tmp\]"):
        workspaces_from(read(*WORKSPACE, "--workspace", f"lake={uri}", "--records", "kubernetes"))
    workspaces_from(read(*WORKSPACE, "--workspace", "lake=s3://bucket/lodge2", "--records", "kubernetes"))


def test_impersonation_in_an_object_store_is_refused() -> None:
    settings = read(*WORKSPACE, "--records", "kubernetes", "--impersonation", "--principal-backend", "ada=sc://h:1")
    with pytest.raises(SettingError, match=r"OS users.*must be file-based"):
        check_impersonation(settings, workspaces_from(settings))


def test_reaper_process_gets_the_whole_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    given = read(*WORKSPACE, "--records", "kubernetes")
    for name, value in environment_for(given, workspaces_from(given)).items():
        monkeypatch.setenv(name, value)
    assert workspaces_from(read(model=ReapSettings)) == workspaces_from(given)


def test_type_of_locations_follows_the_workspace(tmp_path: Path) -> None:
    in_store = workspaces_from(read(*WORKSPACE, "--records", "kubernetes"))
    assert isinstance(open_locations(in_store.temporary), ObjectSessionLocations)
    in_files = workspaces_from(read("--workspace", f"dfs.tmp={tmp_path.as_uri()}"))
    assert isinstance(open_locations(in_files.temporary), FileSessionLocations)
