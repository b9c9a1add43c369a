"""What is known of a permanent table: a file in its directory that only Lodge puts there.

Why it exists: who reads a name in a workspace must tell a table that ``CREATE TABLE`` made from files that anyone put
there, and must not depend on what creates and drops tables.
"""

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructType

from gateway.errors import GatewayError
from gateway.stored_tables.storage_formats import STORAGE_FORMATS
from gateway.stored_tables.table_plans import read_relation
from workspace.files.table_files import has_links
from workspace.workspaces import NotFileBasedError, Workspace

DESCRIPTION = ".lodge-table.json"
"""The file in a table's directory that says what it is; readers of raw files pass over it."""

_MOST_BYTES = 4 * 1024 * 1024

GLOB = re.compile(r"[*?\[\]{}\\]")  # Spark takes a path with these for a pattern


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of a permanent table.

    Attributes:
        schema: Its columns.
        storage_format: Of its files.
        options: Of the storage format, as the statement gave them.
    """

    schema: StructType
    storage_format: str
    options: Mapping[str, str]

    def encoded(self) -> str:
        document = {"schema": self.schema.jsonValue(), "format": self.storage_format, "options": dict(self.options)}
        return json.dumps({"lodge_table": 1, **document}, indent=1)

    @classmethod
    def of(cls, directory: Path) -> "Description | None":
        """That of a directory; None if it is no table, or what stands there is no description."""
        try:
            descriptor = os.open(directory / DESCRIPTION, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                document = json.loads(file.read(_MOST_BYTES))
            if _has_user_defined_type(document["schema"]):
                return None
            known = STORAGE_FORMATS[document["format"]]
            schema = StructType.fromJson(document["schema"])
            options = {str(key): str(value) for key, value in document["options"].items()}
            known.options(options)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, GatewayError):
            return None
        return cls(schema, known.name, options)


def _has_user_defined_type(value: object) -> bool:
    """Reading such a type would import the Python module that it names."""
    if isinstance(value, dict):
        return value.get("type") == "udt" or any(map(_has_user_defined_type, value.values()))
    return isinstance(value, list) and any(map(_has_user_defined_type, value))


def permanent_table(path: Path) -> relations_pb2.Relation | None:
    """What reads a directory that is a permanent table; None if it is none.

    Raises: GatewayError for one that holds links: Spark would follow them out of the workspace.
    """
    description = Description.of(path)
    if description is None or GLOB.search(str(path)):
        return None
    if has_links(path):
        raise GatewayError(
            "LODGE_PATH_REFUSED", "42501", f"Table [{path.name}] holds a link, and is not read. Remove the link."
        )
    return read_relation(
        [str(path)],
        storage_format=description.storage_format,
        schema=description.schema,
        options=STORAGE_FORMATS[description.storage_format].options(description.options),
        is_partitioned=False,
    )


def permanent_names(workspace: Workspace) -> Sequence[str]:
    """The permanent tables of a workspace."""
    with suppress(OSError, NotFileBasedError), os.scandir(workspace.root) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_dir(follow_symlinks=False) and Description.of(Path(entry.path)) is not None
        )
    return ()
