"""Records as files: their layout, lost replies, damage, storage failures and modes.

The guarantees are those of workspace.files.record_versions ("directory") and workspace.files.session_records
("records").
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.fixture_types import WaitUntil
from tests.records import a_record
from workspace.files.leases import FileLeases
from workspace.files.record_directories import LEFTOVER_SECONDS, Content, RecordDirectories
from workspace.files.record_versions import HINT_INTERVAL, VersionDirectory
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import ClientSessionId, Principal, RecordName, ReplicaId
from workspace.record_changes import add_holder
from workspace.record_store import RecordChanged, RecordExistsError, RecordGone, RecordsEvent, RecordsUnavailableError
from workspace.records import SessionRecord

A = ReplicaId("a")


def versions_of(root: Path, record: SessionRecord) -> list[Path]:
    return sorted((root / ".lodge" / "sessions" / record.name).glob("*.json"))


def changed_often(root: Path, changes: int, name: str = "often") -> RecordName:
    """Create a record, and change it many times."""
    records = FileSessionRecords(root)
    stored = records.create(a_record(client_session_id=ClientSessionId(name)))
    with mock.patch("os.fsync"):
        for number in range(changes):
            changed = replace(stored.record, created_at=str(number))
            stored = records.replace(changed, stored.version)
    return stored.record.name


def everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_directory_guarantee_1_names_stay_and_old_contents_are_truncated(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    for n in range(3):
        stored = records.replace(add_holder(stored.record, ReplicaId(str(n))), stored.version)
    assert [path.stat().st_size > 0 for path in versions_of(root, stored.record)] == [
        False,
        False,
        False,
        True,
    ]
    assert len(list((root / ".lodge" / "sessions" / stored.record.name).iterdir())) == 4


def test_delete_leaves_no_files(root: Path) -> None:
    before = everything(root)
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    stored = records.replace(add_holder(stored.record, A), stored.version)
    records.delete(stored.record.name, stored.version)
    assert everything(root) == before


def test_link_with_a_lost_reply_is_recognised(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    original = os.link

    def link_and_lose_the_reply(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        original(*args, **kwargs)

    with mock.patch("os.link", link_and_lose_the_reply):
        changed = records.replace(add_holder(stored.record, A), stored.version)
    assert records.read(stored.record.name) == changed


def test_rename_with_a_lost_reply_is_recognised(root: Path) -> None:
    original = os.rename

    def rename_and_lose_the_reply(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        original(*args, **kwargs)

    record = a_record()
    with mock.patch("os.rename", rename_and_lose_the_reply):
        created = FileSessionRecords(root).create(record)
    assert FileSessionRecords(root).read(record.name) == created


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        b'{"format": 2, "record": {}}',
        b'{"format": 1, "record": {"session_uuid": "x"}}',
        b"[" * 100_000,
    ],
)
def test_records_guarantee_1_error_names_the_file_of_a_damaged_record(root: Path, damage: bytes) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    records.create(a_record(client_session_id=ClientSessionId("sound")))
    (file,) = versions_of(root, stored.record)
    file.write_bytes(damage)
    for reading in (lambda: records.read(stored.record.name), records.list):
        with pytest.raises(RecordsUnavailableError, match=file.name):
            reading()
    with pytest.raises(RecordExistsError):
        records.create(a_record())


def test_records_guarantee_2_record_at_the_path_of_another_is_damaged(root: Path) -> None:
    records = FileSessionRecords(root)
    one = records.create(a_record()).record
    other = records.create(a_record(client_session_id=ClientSessionId("other"))).record
    versions_of(root, one)[0].write_bytes(versions_of(root, other)[0].read_bytes())
    with pytest.raises(RecordsUnavailableError, match="another session"):
        records.read(one.name)


@pytest.mark.parametrize("missing", ["", ".lodge", ".lodge/sessions"])
def test_missing_storage_makes_records_unavailable(root: Path, missing: str) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    gone = root / missing
    gone.rename(gone.with_name("elsewhere"))
    for operation in (
        records.list,
        lambda: records.read(stored.record.name),
        lambda: records.create(a_record()),
        lambda: records.replace(stored.record, stored.version),
        lambda: records.delete(stored.record.name, stored.version),
    ):
        with pytest.raises(RecordsUnavailableError):
            operation()


@pytest.mark.parametrize("broken", ["link", "rename", "fsync", "open", "scandir"])
def test_storage_error_makes_records_unavailable_until_it_ends(root: Path, broken: str) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    with mock.patch(f"os.{broken}", side_effect=OSError(5, "Input/output error")):
        for operation in (
            lambda: records.create(a_record(client_session_id=ClientSessionId("new"))),
            lambda: records.replace(stored.record, stored.version),
        ):
            with suppress(RecordsUnavailableError):
                operation()
    assert records.read(stored.record.name).record == stored.record


def test_record_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    place = root / ".lodge" / "sessions" / stored.record.name
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    for operation in (records.list, lambda: records.delete(stored.record.name, stored.version)):
        with pytest.raises(RecordsUnavailableError):
            operation()
    assert list((tmp_path / "elsewhere").iterdir())


def test_list_ignores_other_names(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    (root / ".lodge" / "sessions" / "README").write_text("not a record")
    (root / ".lodge" / "sessions" / stored.record.name / "notes.txt").write_text("not a version")
    assert list(records.list()) == [stored]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o277])
def test_record_files_are_private_with_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        FileSessionLocations(tmp_path).initialise()
        FileLeases(tmp_path).renew(A)
        records = FileSessionRecords(tmp_path)
        stored = records.create(a_record())
        records.replace(add_holder(stored.record, A), stored.version)
    finally:
        os.umask(before)
    own = tmp_path / ".lodge"
    for path in (own, *own.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_files_guarantee_3_list_keeps_recent_unfinished_directories(root: Path) -> None:
    now_seconds = 0.0
    records = FileSessionRecords(root, lambda: now_seconds)
    stored = records.create(a_record())
    with mock.patch("workspace.files.record_versions.VersionDirectory.clear"):
        records.delete(stored.record.name, stored.version)
    dead = root / ".lodge" / "sessions" / stored.record.name
    staged = root / ".lodge" / "staging" / "0123456789abcdef"
    staged.mkdir()
    for now_seconds in (1000.0, 1000.0 + LEFTOVER_SECONDS - 1):  # noqa: B007 - the clock reads it
        assert not records.list()
        assert dead.exists()
        assert staged.exists()
    now_seconds = 1000.0 + LEFTOVER_SECONDS
    assert not records.list()
    assert not dead.exists()
    assert not staged.exists()


@pytest.mark.slow
def test_directory_guarantee_5_reading_takes_no_longer_after_10000_changes(root: Path) -> None:
    records = FileSessionRecords(root)
    few, many = changed_often(root, 10, "few"), changed_often(root, 10_000, "many")
    seconds: dict[RecordName, list[float]] = {few: [], many: []}
    for _ in range(200):
        for name, times in seconds.items():
            started_seconds = time.perf_counter()
            records.read(name)
            times.append(time.perf_counter() - started_seconds)
    assert min(seconds[many]) < 3 * min(seconds[few])
    assert records.read(many).record.created_at == "9999"


def test_directory_guarantee_5_neither_reads_nor_changes_list_the_directory(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.read(changed_often(root, 100))
    with mock.patch("workspace.files.record_versions.scan_directory", side_effect=AssertionError):
        for number in range(20):
            assert records.read(stored.record.name) == stored
            stored = records.replace(replace(stored.record, created_at=str(number)), stored.version)


@pytest.mark.parametrize("changes", [*range(40), 100, 1000])
def test_directory_guarantee_5_hint_of_any_age_leads_to_the_highest_version(root: Path, changes: int) -> None:
    name = changed_often(root, HINT_INTERVAL)
    records = FileSessionRecords(root)
    stored = records.read(name)
    with mock.patch("workspace.files.record_versions.HINT_INTERVAL", 10**9), mock.patch("os.fsync"):
        for number in range(changes):
            stored = records.replace(replace(stored.record, created_at=f"later {number}"), stored.version)
    assert records.read(name) == stored


@pytest.mark.parametrize(
    "hint", [None, b"", b"\xff", b"0000000003", b"0000000003.0123456789abcdef", b"9" * 27, b"../x"]
)
def test_directory_guarantee_5_damaged_hint_changes_no_result(root: Path, hint: bytes | None) -> None:
    records = FileSessionRecords(root)
    stored = records.read(changed_often(root, 20))
    file = root / ".lodge" / "sessions" / stored.record.name / "hint"
    assert file.exists()
    file.unlink() if hint is None else file.write_bytes(hint)
    assert records.read(stored.record.name) == stored
    for number in range(HINT_INTERVAL):
        stored = records.replace(replace(stored.record, created_at=f"later {number}"), stored.version)
    assert records.read(stored.record.name) == stored
    assert file.read_text().endswith(stored.version.partition(".")[2]), "the hint has been repaired"


def test_failed_hint_does_not_fail_the_change(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.create(a_record())
    with mock.patch("os.rename", side_effect=OSError(28, "No space left on device")):
        for number in range(20):
            stored = records.replace(replace(stored.record, created_at=str(number)), stored.version)
    assert records.read(stored.record.name) == stored
    assert not list((root / ".lodge" / "sessions" / stored.record.name).glob("*.tmp"))


def test_hint_of_a_late_process_does_not_revive_a_deleted_record(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = records.read(changed_often(root, 20))
    original = VersionDirectory.clear

    def clear_before_a_late_hint(self: VersionDirectory) -> None:
        original(self)
        self._write_hint(stored.version)

    with mock.patch.object(VersionDirectory, "clear", clear_before_a_late_hint):
        records.delete(stored.record.name, stored.version)
    assert (root / ".lodge" / "sessions" / stored.record.name / "hint").exists()
    assert not records.list()
    again = records.create(stored.record)
    assert records.read(stored.record.name) == again


def test_principal_is_found_without_reading_known_records_of_others(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = [records.create(_session_of(f"p{number % 5}", number)) for number in range(20)]
    records.list()
    later = FileSessionRecords(root).create(_session_of("p0", 20))
    with _counted_reads() as read:
        found = records.list_of_principal(Principal("p0"))
    assert {each.record.name for each in found} == {each.record.name for each in (*stored[::5], later)}
    assert sorted(read) == sorted(each.record.name for each in found)


def test_held_records_are_found_without_reading_unchanged_records_of_others(root: Path) -> None:
    records = FileSessionRecords(root)
    stored = [records.create(_session_of("ada", number, holder=f"gateway-{number % 5}")) for number in range(20)]
    records.list()
    FileSessionRecords(root).replace(_session_of("ada", 1, holder="gateway-0"), stored[1].version)
    FileSessionRecords(root).replace(_session_of("ada", 2, holder="gateway-3"), stored[2].version)
    with _counted_reads() as read:
        found = records.list_held(ReplicaId("gateway-0"))
    assert {each.record.name for each in found} == {stored[number].record.name for number in (0, 1, 5, 10, 15)}
    assert sorted(read) == sorted({stored[2].record.name, *(each.record.name for each in found)})


def test_watch_reads_only_changed_records_again(root: Path, wait_until: WaitUntil) -> None:
    records, stop = FileSessionRecords(root, poll_seconds=0.01), threading.Event()
    stored = [records.create(_session_of("ada", number, holder="gateway-a")) for number in range(20)]
    seen: list[RecordsEvent] = []
    thread = threading.Thread(target=lambda: seen.extend(records.watch(stop)), daemon=True)
    with _counted_reads() as read:
        thread.start()
        wait_until(lambda: seen, "the first list")
        del read[:]
        changed = FileSessionRecords(root).replace(_session_of("ada", 7, holder="gateway-b"), stored[7].version)
        wait_until(lambda: RecordChanged(changed) in seen, "the change")
        FileSessionRecords(root).delete(stored[8].record.name, stored[8].version)
        wait_until(lambda: RecordGone(stored[8].record.name) in seen, "the deletion")
    stop.set()
    thread.join(30)
    assert set(read) <= {stored[7].record.name, stored[8].record.name}
    assert read.count(stored[7].record.name) == 1


@contextmanager
def _counted_reads() -> Iterator[list[str]]:
    """Collect the names of the records whose contents are read."""
    read: list[str] = []
    original = RecordDirectories._read_settled

    def counting(self: RecordDirectories, name: RecordName) -> Content:
        read.append(name)
        return original(self, name)

    with mock.patch.object(RecordDirectories, "_read_settled", counting):
        yield read


def _session_of(principal: str, number: int, holder: str = "gateway-a") -> SessionRecord:
    return a_record(number, principal=Principal(principal), holders=frozenset({ReplicaId(holder)}))
