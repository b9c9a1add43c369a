"""Records and leases are never read from, or written to, other storage at their path. Numbers are guarantees."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fixture_types import InterruptedAt, NewRoot
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ReplicaId
from workspace.leases import STOPPED
from workspace.record_changes import add_holder
from workspace.record_store import RecordError, RecordsUnavailableError, StoredRecord

A, B = ReplicaId("a"), ReplicaId("b")


OPERATIONS = (
    "create",
    "read",
    "list",
    "find",
    "list_of_principal",
    "list_held",
    "replace",
    "delete",
    "renew",
    "renew_new",
    "stop",
    "list_leases",
    "delete_lease",
    "check_writable",
)


class Home:
    """A home with a record and a lease, whose storage can be replaced."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._away = root.with_name(f"{root.name}.away")
        self.records, self.leases = FileSessionRecords(root), FileLeases(root)
        self.stored = self.records.create(a_record(1, holders=frozenset({A})))
        self.leases.renew(A)

    def replace_storage(self, instead: str) -> None:
        self.root.rename(self._away)
        if instead != "nothing":
            self.root.mkdir()
        if instead in {"another home", "a home without an id"}:
            FileSessionLocations(self.root).initialise()
        if instead == "a home without an id":
            (self.root / ".lodge" / "root").unlink()

    def restore_storage(self) -> None:
        if self.root.exists():
            self.root.rename(self.root.with_name(f"{self.root.name}.wrong"))
        self._away.rename(self.root)

    def operations(self) -> Mapping[str, Callable[[], Any]]:
        records, leases, stored = self.records, self.leases, self.stored
        return {
            "create": partial(records.create, a_record(2)),
            "read": partial(records.read, stored.record.name),
            "list": records.list,
            "find": partial(records.find, stored.record.session_uuid),
            "list_of_principal": partial(records.list_of_principal, stored.record.principal),
            "list_held": partial(records.list_held, A),
            "replace": partial(records.replace, add_holder(stored.record, B), stored.version),
            "delete": partial(records.delete, stored.record.name, stored.version),
            "renew": partial(leases.renew, A),
            "renew_new": partial(leases.renew, B),
            "stop": partial(leases.stop, A),
            "list_leases": leases.list,
            "delete_lease": partial(leases.delete, A),
            "check_writable": leases.check_writable,
        }

    def state(self) -> tuple[Any, Any]:
        """Return the records, and which leases are stopped, as a process finds them that starts now."""
        return contents(FileSessionRecords(self.root).list()), contents(FileLeases(self.root).list())


def attempted(operation: Callable[[], Any]) -> Any:
    """Return the result or the error of an operation."""
    try:
        return operation()
    except RecordError as error:
        return error


def contents(result: Any) -> Any:
    """Return what a result says, without versions and marks, which differ between homes."""
    if isinstance(result, StoredRecord):
        return result.record
    if isinstance(result, Mapping):
        return {each: mark == STOPPED for each, mark in result.items()}
    return [contents(each) for each in result] if isinstance(result, Sequence) else result


def everything(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


@pytest.mark.parametrize("instead", ["nothing", "an empty directory", "a home without an id", "another home"])
def test_guarantee_2_nothing_is_found_or_changed_in_other_storage(root: Path, instead: str) -> None:
    home = Home(root)
    home.replace_storage(instead)
    before = everything(root)
    assert tuple(home.operations()) == OPERATIONS
    for name, operation in home.operations().items():
        with pytest.raises(RecordsUnavailableError, match=str(root)):
            operation()
        assert everything(root) == before, name
    home.restore_storage()
    assert home.records.list() == [home.stored]
    home.leases.renew(A)


@pytest.mark.parametrize("name", OPERATIONS)
def test_guarantee_1_result_does_not_count_if_the_storage_is_replaced_at_any_step(
    new_root: NewRoot, interrupted_at: InterruptedAt, name: str
) -> None:
    undisturbed = Home(new_root())
    result = undisturbed.operations()[name]()
    expected = undisturbed.state()
    for step in itertools.count(1):
        home = Home(new_root())
        before = home.state()
        task = partial(attempted, home.operations()[name])
        was_interrupted, found = interrupted_at(step, task, partial(home.replace_storage, "another home"))
        if not was_interrupted:
            break
        home.restore_storage()
        if isinstance(found, RecordsUnavailableError):
            assert home.state() in (before, expected)
        else:
            assert contents(found) == contents(result)
            assert home.state() == expected
    assert step > 3
