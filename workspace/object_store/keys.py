"""The keys below the prefix of a workspace in an object store.

::

    <prefix>/<session uuid>/.location                          a session location, which may be empty
    <prefix>/<session uuid>/<table uuid>/...                   tables, as written by the backend
    <prefix>/.lodge/trash/<session uuid>.location              tombstone of a session location
    <prefix>/.lodge/trash/<session uuid>.<table uuid>.table    tombstone of a table
    <prefix>/.lodge/scan-schemas/<scan>/<segment>              schemas of scanned files
    <prefix>/.lodge/root                                       the id of this root (:mod:`workspace.root_identities`)
    <prefix>/.lodge/records                                    the id of the session records of this root
"""

import re
from dataclasses import dataclass

from workspace.identifiers import SessionUuid, TableUuid, check_uuid
from workspace.object_store.addresses import ObjectAddress
from workspace.storage_paths import OWN_DIRECTORY
from workspace.trash_entries import TrashEntry

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TOMBSTONE = re.compile(rf"({_UUID})\.(?:location|({_UUID})\.table)")


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a tombstone, which is a session location or a table.

    Raises:
        ValueError: If a UUID is not canonical.
    """

    session_uuid: SessionUuid
    table_uuid: TableUuid | None = None

    def __post_init__(self) -> None:
        check_uuid(self.session_uuid)
        if self.table_uuid is not None:
            check_uuid(self.table_uuid)


class Keys:
    """The keys and URIs of one workspace.

    Args:
        address: The address of the workspace.
    """

    def __init__(self, address: ObjectAddress) -> None:
        own = f"{address.prefix}/{OWN_DIRECTORY}"
        self._address = address
        self.root = f"{address.prefix}/"
        self.root_id = f"{own}/root"
        self.records_id = f"{own}/records"
        self.trash = f"{own}/trash/"
        self.scan_schemas = f"{own}/scan-schemas/"

    def prefix(self, target: Target) -> str:
        """Return the common prefix of all keys of a session location or table."""
        table = "" if target.table_uuid is None else f"{target.table_uuid}/"
        return f"{self.root}{target.session_uuid}/{table}"

    def uri(self, session_uuid: SessionUuid) -> str:
        """Return the URI of a session location."""
        return f"{self._address.storage_path}/{check_uuid(session_uuid)}"

    def tombstone(self, target: Target) -> str:
        """Return the key of the tombstone for a target."""
        kind = "location" if target.table_uuid is None else f"{target.table_uuid}.table"
        return f"{self.trash}{target.session_uuid}.{kind}"

    def entry(self, target: Target) -> TrashEntry:
        """Return the entry of the trash for a target."""
        return TrashEntry(f"s3://{self._address.bucket}/{self.tombstone(target)}")

    def target_of(self, entry: TrashEntry) -> Target:
        """Return the target of an entry of the trash.

        Raises:
            ValueError: If the path is not an entry of this trash.
        """
        target = parse_tombstone(entry.rpartition("/")[2])
        if target is None or self.entry(target) != entry:
            raise ValueError(f"The path {entry!r} is not an entry of the trash.")
        return target


def parse_tombstone(name: str) -> Target | None:
    """Return the target of a tombstone, or None if the name is not valid.

    The name of a tombstone is the last part of its key.
    """
    found = _TOMBSTONE.fullmatch(name)
    if found is None:
        return None
    return Target(SessionUuid(found[1]), TableUuid(found[2]) if found[2] else None)
