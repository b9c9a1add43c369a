"""Directories of permanent tables (guarantees: gateway.tables.workspace_directories)."""

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from gateway.errors import GatewayError
from gateway.stored_tables.table_descriptions import TableDescription
from gateway.tables.workspace_directories import Publication, remove_table
from workspace.workspaces import Workspace


def publish(workspace: Workspace, owner_id: str) -> None:
    publish_description(workspace, TableDescription(StructType(), "parquet", {}, owner_id))


def publish_description(workspace: Workspace, description: TableDescription) -> None:
    source = workspace.root / f".{description.owner_id}"
    publication = Publication(workspace, "t", description)
    source.mkdir()
    publication.run(source)


def columns(count: int) -> StructType:
    return StructType([StructField(f"a column with the number {number}", LongType()) for number in range(count)])


def test_guarantee_3_only_the_checked_table_is_removed(workspace: Workspace) -> None:
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


def test_description_that_is_written_can_be_read(workspace: Workspace) -> None:
    publish_description(workspace, large := TableDescription(columns(20_000), "parquet", {}, "ada"))
    assert (workspace.root / "t" / ".lodge-table.json").stat().st_size > 2**21
    assert TableDescription.read(workspace.root / "t") == large


def test_description_that_could_not_be_read_is_not_written(workspace: Workspace) -> None:
    with pytest.raises(GatewayError, match=r"need 1\d,\d{3},\d{3} bytes. The maximum is 4,194,304"):
        publish_description(workspace, TableDescription(columns(100_000), "parquet", {}, "ada"))
    assert not list(workspace.root.iterdir())


def test_limits_of_options_apply_to_new_tables_only(workspace: Workspace) -> None:
    """A former version has written longer options."""
    options = {f"parquet.{number}": "x" * 5_000 for number in range(101)}
    publish_description(workspace, TableDescription(columns(1), "parquet", options, "ada"))
    description = TableDescription.read(workspace.root / "t")
    assert description is not None
    assert description.options == options
