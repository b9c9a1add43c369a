"""Table descriptions: a JSON file in the directory of each permanent table.

Name resolution uses the table description to distinguish tables that ``CREATE TABLE`` created from other files in a
workspace. This module is separate from the code that creates and drops tables, so that name resolution does not depend
on that code.
"""

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructType

from gateway.blocking_work.file_systems import file_systems
from gateway.errors import GatewayError, storage_unavailable
from gateway.stored_tables.storage_formats import STORAGE_FORMATS
from gateway.stored_tables.table_plans import build_scan
from workspace.files.table_files import has_links
from workspace.workspaces import Workspace

DESCRIPTION_FILE = ".lodge-table.json"
"""The file name of a table description. Readers of raw files ignore this file."""

_MAX_BYTES = 4 * 1024 * 1024
_MAX_STRUCTURE = 400_000
"""How many brackets, commas and colons a description has at most. The parser holds Python's lock."""

_MAX_DIGITS = 20

GLOB = re.compile(r"[*?\[\]{}\\]")
"""The characters that make Spark interpret a path as a pattern."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The description of a permanent table.

    Attributes:
        schema: The schema of the table.
        storage_format: The storage format of the table.
        options: The options of the storage format, from the statement that created the table.
        owner_id: The id of the table's owner (:mod:`workspace.files.table_owners`). Empty if the table has no owner.
    """

    schema: StructType
    storage_format: str
    options: Mapping[str, str]
    owner_id: str = ""

    def encode(self) -> bytes:
        """Return the content of the table description file.

        Raises:
            GatewayError: If the description is too large to be read again.
        """
        document = {
            "schema": self.schema.jsonValue(),
            "format": self.storage_format,
            "options": dict(self.options),
            "owner": self.owner_id,
        }
        content = json.dumps({"lodge_table": 1, **document}, indent=1).encode()
        if len(content) > _MAX_BYTES or _count_structure(content) > _MAX_STRUCTURE:
            raise GatewayError(
                "LODGE_TABLE_DESCRIPTION",
                "54000",
                f"The columns and options of the table need {len(content):,} bytes. The maximum is {_MAX_BYTES:,} "
                f"bytes with {_MAX_STRUCTURE:,} brackets, commas and colons. Use fewer columns or fewer options.",
            )
        return content

    @classmethod
    def read(cls, directory: Path) -> "TableDescription | None":
        """Read the table description in a directory.

        Anybody who may write to the workspace can write the file, so every error in it only hides this table.

        Returns:
            The description. None if the file does not exist or is malformed.
        """
        try:
            descriptor = os.open(directory / DESCRIPTION_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                content = file.read(_MAX_BYTES)
            if _count_structure(content) > _MAX_STRUCTURE:
                return None
            document = json.loads(content, parse_int=_parse_int)
            used = (document["schema"], document["options"], document.get("owner"))
            json.dumps(used, ensure_ascii=False).encode()  # fails if a text is not Unicode
            if _has_user_defined_type(document["schema"]):
                return None
            storage = STORAGE_FORMATS[document["format"]]
            schema = StructType.fromJson(document["schema"])
            if not all(isinstance(field.metadata or {}, dict) for field in schema.fields):
                return None
            options = {str(key): str(value) for key, value in document["options"].items()}
            storage.options(options)
            owner_id = str(document.get("owner", ""))
        except Exception:  # noqa: BLE001 - Spark's parser of schemas raises errors of any kind
            return None
        return cls(schema, storage.name, options, owner_id)


def build_permanent_scan(path: Path) -> relations_pb2.Relation | None:
    """Return a relation that reads a permanent table.

    Returns:
        The relation. None if the directory is not a permanent table.

    Raises:
        GatewayError: If the directory contains a symbolic link. Spark would follow the link out of the workspace.
    """
    description = TableDescription.read(path)
    if description is None or GLOB.search(str(path)):
        return None
    if has_links(path):
        raise GatewayError(
            "LODGE_PATH_REFUSED",
            "42501",
            f"Table [{path.name}] cannot be read: its directory contains a link. Remove the link.",
        )
    return build_scan(
        [str(path)],
        storage_format=description.storage_format,
        schema=description.schema,
        options=STORAGE_FORMATS[description.storage_format].options(description.options),
    )


def list_permanent_tables(workspace: Workspace) -> Sequence[str]:
    """Return the names of the permanent tables in a workspace.

    Raises:
        GatewayError: If the workspace cannot be listed.
    """
    if not workspace.is_file_based:
        return []
    with file_systems.listing(workspace) as progress:
        try:
            directories = _list_directories(workspace)
        except OSError as error:
            raise storage_unavailable(f"workspace [{workspace.name}]") from error
        names = []
        for name in directories:
            progress()
            if TableDescription.read(workspace.root / name) is not None:
                names.append(name)
        return names


def _list_directories(workspace: Workspace) -> Sequence[str]:
    """Return the names of the directories that a client can name. A name can consist of bytes that are not UTF-8."""
    with os.scandir(workspace.root) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(name for name in names if os.fsencode(name).decode(errors="replace") == name)


def _count_structure(content: bytes) -> int:
    return sum(content.count(symbol) for symbol in (b"[", b"{", b",", b":"))


def _parse_int(text: str) -> int:
    """Return an integer of a description, which are small.

    Raises:
        ValueError: If it has too many digits, which take quadratic time.
    """
    if len(text) > _MAX_DIGITS:
        raise ValueError(text[:_MAX_DIGITS])
    return int(text)


def _has_user_defined_type(value: object) -> bool:
    """Return whether a schema contains a user-defined type.

    Decoding a user-defined type would import the Python module that the schema refers to.
    """
    if isinstance(value, dict):
        return value.get("type") == "udt" or any(map(_has_user_defined_type, value.values()))
    return isinstance(value, list) and any(map(_has_user_defined_type, value))
