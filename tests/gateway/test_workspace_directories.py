"""Directories of permanent tables (guarantees: gateway.tables.workspace_directories)."""

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from gateway.stored_tables.table_descriptions import TableDescription
from gateway.tables.workspace_directories import Publication, remove_table
from workspace.workspaces import Workspace, Workspaces


def publish(workspace: Workspace, owner_id: str) -> None:
    source = workspace.root / f".{owner_id}"
    source.mkdir()
    Publication(workspace, "t", TableDescription(StructType(), "parquet", {}, owner_id)).run(source)


def test_guarantee_3_only_the_checked_table_is_removed(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "dfs").mkdir()
    uris = {"dfs.tmp": (tmp_path / "tmp").as_uri(), "dfs": (tmp_path / "dfs").as_uri()}
    workspace = Workspaces.from_uris(uris, "dfs.tmp", ["dfs"]).by_name["dfs"]
    publish(workspace, "ada")
    checked: list[str] = []

    def check(description: TableDescription) -> None:
        checked.append(description.owner_id)
        if description.owner_id != "ada":
            raise PermissionError
        remove_table(workspace, "t", lambda _: None)
        publish(workspace, "bob")

    with pytest.raises(PermissionError):
        remove_table(workspace, "t", check)
    assert checked == ["ada", "bob"]
    description = TableDescription.read(workspace.root / "t")
    assert description is not None
    assert description.owner_id == "bob"
    assert [path.name for path in workspace.root.iterdir()] == ["t"]
