"""Descriptions of permanent tables that other programs wrote, and listings of workspaces."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructField, StructType

from gateway.errors import GatewayError
from gateway.stored_tables.table_descriptions import (
    DESCRIPTION_FILE,
    TableDescription,
    build_permanent_scan,
    list_permanent_tables,
)
from workspace.workspaces import Workspace

VALID = {
    "lodge_table": 1,
    "schema": {
        "type": "struct",
        "fields": [
            {"name": "a", "type": "string", "nullable": True, "metadata": {"comment": "x"}},
            {
                "name": "b",
                "type": {
                    "type": "map",
                    "keyType": "integer",
                    "valueType": {"type": "array", "elementType": "decimal(10,2)", "containsNull": True},
                    "valueContainsNull": True,
                },
                "nullable": True,
                "metadata": {},
            },
        ],
    },
    "format": "csv",
    "options": {"header": "true"},
    "owner": "ada",
}

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ["struct", "udt", "array", "char(5)", "interval day", "decimal(99,1)", "\ud800", "path", "__COLLATIONS"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("type"), inner, max_size=3)
    ),
    max_leaves=5,
)


def write(directory: Path, document: Any) -> None:
    directory.mkdir(exist_ok=True)
    (directory / DESCRIPTION_FILE).write_text(json.dumps(document))


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return all containers inside a value, with each of their keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *places(value[key]))]


@settings(max_examples=500)
@given(data=st.data())
def test_changed_description_never_fails(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    document = copy.deepcopy(VALID)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(document)))
        container[key] = data.draw(JSON)
    directory = tmp_path_factory.getbasetemp() / "changed"
    write(directory, document)
    description = TableDescription.read(directory)
    assert (build_permanent_scan(directory) is None) == (description is None)
    if description is not None:
        description.encode()


@pytest.mark.parametrize(
    "field",
    [
        {"name": 5, "type": "string", "nullable": True, "metadata": {}},
        {"name": "a", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"a": "x"}}},
        {"name": "\ud800", "type": "string", "nullable": True, "metadata": {}},
    ],
    ids=["name that is a number", "unknown collation", "half of a character"],
)
def test_malformed_description_hides_only_its_table(workspace: Workspace, field: dict[str, Any]) -> None:
    write(workspace.root / "good", VALID)
    write(workspace.root / "bad", {**VALID, "schema": {"type": "struct", "fields": [field]}})
    write(Path(os.fsdecode(os.fsencode(workspace.root) + b"/x\xff")), VALID)
    assert list_permanent_tables(workspace) == ["good"]


def test_workspace_that_has_disappeared_is_not_empty(workspace: Workspace) -> None:
    workspace.root.rmdir()
    with pytest.raises(GatewayError, match=r"cannot reach the storage of workspace \[dfs\]"):
        list_permanent_tables(workspace)


@pytest.mark.parametrize(
    "filler",
    ["[" + "[]," * 1_000_000 + "0]", "[" + "1.5," * 800_000 + "0]", "1" * 4000, "[" * 100_000 + "]" * 100_000],
    ids=["lists", "numbers", "digits", "depth"],
)
def test_description_that_is_slow_to_parse_is_not_parsed(tmp_path: Path, filler: str) -> None:
    document = json.dumps({**VALID, "comment": 0}).replace('"comment": 0', f'"comment": {filler}')
    (tmp_path / DESCRIPTION_FILE).write_text(document)
    assert TableDescription.read(tmp_path) is None


def test_description_with_too_many_nested_fields_is_not_written() -> None:
    schema = StructType([StructField("a", StructType([StructField(f"c{n}", LongType()) for n in range(45_000)]))])
    with pytest.raises(GatewayError, match="LODGE_TABLE_DESCRIPTION"):
        TableDescription(schema, "parquet", {}, "ada").encode()
