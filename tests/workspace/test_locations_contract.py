"""The contract of session locations for every storage (guarantees: workspace.locations).

Another implementation joins by a folder that imports these tests. The ``conftest.py`` of the folder defines its own
``storage`` (:mod:`tests.workspace.object_store`).
"""

import re
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reaper.table_directories import TableDirectories
from tests.records import a_record
from tests.workspace.in_memory_root_ids import InMemoryRootIds
from tests.workspace.object_store.storages import Files, Storage
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import SessionUuid, TableUuid
from workspace.locations import SessionLocations
from workspace.root_identities import RootError, RootIds, RootTakenError, RootUnavailableError
from workspace.session_end import end_session
from workspace.storage_paths import file_system_of
from workspace.trash_entries import TrashEntry, is_whole_location, location_of, session_of

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
OTHER = SessionUuid("00000000-0000-4000-8000-000000000002")
TABLE = TableUuid("00000000-0000-4000-8000-00000000000a")
SECOND = TableUuid("00000000-0000-4000-8000-00000000000b")
BAD_UUIDS = [
    "",
    ".",
    "..",
    ".lodge",
    f"../{SESSION}",
    f"{SESSION}/x",
    f"{SESSION}\n",
    SESSION.replace("-", ""),
    "A" * 36,
]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Files(tmp_path / "workspace")


@pytest.fixture
def locations(storage: Storage) -> SessionLocations:
    return storage.opened()


def purge_all(locations: SessionLocations) -> None:
    for entry in locations.trash():
        assert locations.purge(entry)
    assert not locations.trash()


def at_once(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(tasks)) as executor:
        return [call.result() for call in [executor.submit(task) for task in tasks]]


def test_life_of_a_location_from_creation_to_purge(storage: Storage, locations: SessionLocations) -> None:
    assert locations.list() == set()
    assert locations.paths(SESSION) == []
    place = locations.create(SESSION)
    assert locations.create(SESSION) == place
    assert storage.opened().list() == {SESSION}
    assert locations.paths(SESSION) == [place]
    assert str(locations.table_paths(SESSION, [TABLE])[0]) == f"{place}/{TABLE}"
    storage.write(f"{SESSION}/{TABLE}/part-0")
    assert locations.move_to_trash(SESSION) == [place]
    assert locations.list() == set()
    assert locations.paths(SESSION) == []
    assert locations.move_to_trash(SESSION) == []
    (entry,) = locations.trash_of(SESSION)
    assert locations.trash() == [entry]
    assert (session_of(entry), is_whole_location(entry), location_of(entry)) == (SESSION, True, place)
    assert file_system_of(location_of(entry)) in {"file:///", "s3://" + str(place).split("/")[2]}
    assert locations.purge(entry)
    assert locations.purge(entry)
    assert not locations.trash()
    assert not storage.files()


@pytest.mark.parametrize("bad", BAD_UUIDS)
def test_guarantee_1_only_uuids_become_storage_paths(locations: SessionLocations, bad: str) -> None:
    for operation in (
        lambda: locations.create(SessionUuid(bad)),
        lambda: locations.paths(SessionUuid(bad)),
        lambda: locations.move_to_trash(SessionUuid(bad)),
        lambda: locations.trash_of(SessionUuid(bad)),
        lambda: locations.remove_table(SessionUuid(bad), TABLE),
        lambda: locations.remove_table(SESSION, TableUuid(bad)),
        lambda: locations.table_paths(SESSION, [TableUuid(bad)])[0],
        lambda: locations.size_bytes(SessionUuid(bad), TABLE),
        lambda: locations.sum_data_files(SessionUuid(bad), TABLE, lambda file: 1),
        lambda: locations.sum_data_files(SESSION, TableUuid(bad), lambda file: 1),
        lambda: locations.copy_table((SESSION, TABLE), (OTHER, TableUuid(bad))),
        lambda: locations.roots()[0].stamp(SessionUuid(bad)),
        lambda: locations.roots()[0].contents(SessionUuid(bad)),
    ):
        with pytest.raises(ValueError, match=r"The UUID .* is not valid"):
            operation()


@pytest.mark.parametrize(
    "bad", ["", "..", "/etc", "{entry}/", "{entry}/../x", "{entry}x", "{root}/{session}", "s3://a/b"]
)
def test_guarantee_2_only_trash_entries_are_purged(storage: Storage, locations: SessionLocations, bad: str) -> None:
    place = locations.create(SESSION)
    locations.create(OTHER)
    storage.write(f"{SESSION}/{TABLE}/part-0")
    locations.move_to_trash(OTHER)
    (entry,) = locations.trash()
    root = str(place).rsplit("/", 1)[0]
    wrong = TrashEntry(bad.format(entry=entry, root=root, session=SESSION))
    if wrong == f"{entry}x" and isinstance(place, Path):
        assert locations.purge(wrong), "a name in the trash that is gone"
    else:
        with pytest.raises(ValueError, match="trash"):
            locations.purge(wrong)
    not_set_aside = TrashEntry(entry.replace(OTHER, SESSION))
    assert locations.purge(not_set_aside)
    assert storage.files() == {f"{SESSION}/{TABLE}/part-0": b"data"}
    assert locations.trash() == [entry]


def test_guarantee_2_neighbours_of_a_removed_location_stay(storage: Storage, locations: SessionLocations) -> None:
    kept = [f"{SESSION}x/part", f"{SESSION}.location/part", "other/part", "file", f"{OTHER}/{TABLE}/part"]
    kept += [f"{SESSION[:-1]}/part", f"{SESSION.upper()}x/{TABLE}/part"]
    locations.create(SESSION)
    locations.create(OTHER)
    for name in (*kept, f"{SESSION}/{TABLE}/part"):
        storage.write(name)
    locations.remove_table(SESSION, TABLE)
    purge_all(locations)
    locations.move_to_trash(SESSION)
    purge_all(locations)
    assert sorted(storage.files()) == sorted(kept)
    assert locations.list() == {OTHER}


def test_only_canonical_uuids_are_listed(storage: Storage, locations: SessionLocations) -> None:
    locations.create(SESSION)
    for name in (SESSION.replace("1", "A"), "other", f"{SESSION}x", ".hidden"):
        storage.write(f"{name}/part")
    storage.write(str(uuid.uuid4()), b"a file")
    assert locations.list() == {SESSION}


def test_guarantee_3_location_recreated_by_a_late_writer_is_found_and_removed(
    storage: Storage, locations: SessionLocations
) -> None:
    locations.create(SESSION)
    for _ in range(3):
        storage.write(f"{SESSION}/{TABLE}/part-0")
        assert locations.list() == {SESSION}
        assert locations.move_to_trash(SESSION)
        purge_all(locations)
        assert locations.list() == set()
    assert not storage.files()


def test_guarantee_3_removed_table_is_gone_and_the_others_stay(storage: Storage, locations: SessionLocations) -> None:
    locations.create(SESSION)
    assert not locations.remove_table(SESSION, TABLE)
    for table in (TABLE, SECOND):
        storage.write(f"{SESSION}/{table}/p=1/part-0", b"12345")
        storage.write(f"{SESSION}/{table}/part-1", b"123")
    storage.write(f"{SESSION}/_temporary/x")
    inside = locations.roots()[0].contents(SESSION)
    assert (inside.tables, inside.foreign_count) == ({TABLE, SECOND}, 1)
    stamp = locations.roots()[0].stamp(SESSION)
    assert locations.size_bytes(SESSION, TABLE) == 8
    assert locations.remove_table(SESSION, TABLE)
    assert not locations.remove_table(SESSION, TABLE)
    assert locations.roots()[0].contents(SESSION).tables == {SECOND}
    assert locations.roots()[0].stamp(SESSION) != stamp
    with pytest.raises(FileNotFoundError):
        locations.size_bytes(SESSION, TABLE)
    (entry,) = locations.trash_of(SESSION)
    assert (session_of(entry), is_whole_location(entry)) == (SESSION, False)
    purge_all(locations)
    assert locations.roots()[0].contents(SESSION).tables == {SECOND}
    assert set(storage.files()) == {
        f"{SESSION}/{SECOND}/p=1/part-0",
        f"{SESSION}/{SECOND}/part-1",
        f"{SESSION}/_temporary/x",
    }
    assert locations.list() == {SESSION}


def test_missing_location_has_no_stamp_and_no_contents(locations: SessionLocations) -> None:
    (root,) = locations.roots()
    assert root.stamp(SESSION) is None
    assert (root.contents(SESSION).tables, root.contents(SESSION).foreign_count) == (set(), 0)
    locations.create(SESSION)
    assert locations.roots()[0].stamp(SESSION) is not None
    locations.move_to_trash(SESSION)
    assert locations.roots()[0].stamp(SESSION) is None


def test_reaper_finds_tables_on_every_storage(storage: Storage, locations: SessionLocations) -> None:
    directories = TableDirectories(locations)
    locations.create(SESSION)
    assert directories.read({SESSION}, 0.0)[SESSION].tables == set()
    storage.write(f"{SESSION}/{TABLE}/part-0")
    for seconds in (1.0, 10.0, 20.0):
        assert directories.read({SESSION}, seconds)[SESSION].tables == {TABLE}
    locations.remove_table(SESSION, TABLE)
    assert directories.read({SESSION}, 30.0)[SESSION].tables == set()


def test_copy_of_a_table_is_independent(storage: Storage, locations: SessionLocations) -> None:
    for session in (SESSION, OTHER):
        locations.create(session)
    for name in ("_SUCCESS", "p=1/part-0", "p=a b%20ü+/part-1"):
        storage.write(f"{SESSION}/{TABLE}/{name}", name.encode())
    locations.copy_table((SESSION, TABLE), (OTHER, SECOND))
    locations.move_to_trash(SESSION)
    purge_all(locations)
    copied = {name.removeprefix(f"{OTHER}/{SECOND}/"): content for name, content in storage.files().items()}
    assert copied == {name: name.encode() for name in ("_SUCCESS", "p=1/part-0", "p=a b%20ü+/part-1")}
    for gone in (SESSION, OTHER):
        with pytest.raises(FileNotFoundError):
            locations.copy_table((gone, TABLE), (OTHER, TableUuid(str(uuid.uuid4()))))


def test_guarantee_4_another_process_completes_a_stopped_purge(storage: Storage, locations: SessionLocations) -> None:
    locations.create(SESSION)
    for n in range(30):
        storage.write(f"{SESSION}/{TABLE}/part-{n}")
    locations.move_to_trash(SESSION)
    (entry,) = locations.trash()
    assert not locations.purge(entry, lambda: True)
    assert storage.opened().trash() == [entry]
    assert storage.opened().list() == set()
    purge_all(storage.opened())
    assert not storage.files()


def test_guarantee_4_one_of_many_processes_moves_to_the_trash_and_all_may_purge(storage: Storage) -> None:
    opened = [storage.opened() for _ in range(4)]
    opened[0].create(SESSION)
    for n in range(50):
        storage.write(f"{SESSION}/{TABLE}/p={n % 5}/part-{n}")
    results = at_once([lambda each=each: each.move_to_trash(SESSION) for each in opened])
    assert sorted(map(len, results)) == [0, 0, 0, 1]
    at_once([lambda each=each: [each.purge(entry) for entry in each.trash()] for each in opened])
    purge_all(opened[0])
    assert not storage.files()


def test_guarantee_5_replaced_root_is_an_error_and_stays_unchanged(storage: Storage) -> None:
    root_ids = InMemoryRootIds()
    locations = storage.opened(root_ids)
    locations.create(SESSION)
    storage.write(f"{SESSION}/{TABLE}/part-0")
    locations.move_to_trash(OTHER)
    storage.unmount()
    for is_foreign in (False, True):
        if is_foreign:
            storage.opened().create(OTHER)
            storage.write(f"{OTHER}/{TABLE}/part-0")
        before = storage.files()
        for look in (
            locations.list,
            locations.roots,
            locations.known_roots,
            locations.trash,
            lambda: locations.create(SESSION),
            lambda: locations.paths(SESSION),
            lambda: locations.move_to_trash(OTHER),
            lambda: locations.remove_table(OTHER, TABLE),
            lambda: locations.table_paths(SESSION, [TABLE])[0],
            lambda: locations.size_bytes(OTHER, TABLE),
            lambda: locations.sum_data_files(OTHER, TABLE, lambda file: 1),
            lambda: locations.trash_of(OTHER),
            lambda: locations.copy_table((OTHER, TABLE), (SESSION, SECOND)),
            locations.initialise,
            lambda: storage.opened(root_ids),
        ):
            with pytest.raises(RootUnavailableError, match="does not contain the storage that Lodge used before"):
                look()
        assert storage.files() == before
    storage.mount()
    assert storage.opened(root_ids).list() == locations.list() == {SESSION}
    assert locations.size_bytes(SESSION, TABLE) == 4


def test_guarantee_5_concurrent_starts_agree_on_one_id(storage: Storage) -> None:
    root_ids = InMemoryRootIds()
    for locations in at_once([lambda: storage.opened(root_ids)] * 4):
        assert locations.list() == set()
    assert len(root_ids.ids) == 1


@pytest.mark.parametrize("step", [1, 2, 3])
def test_guarantee_5_overtaken_start_uses_the_id_of_the_other_process(storage: Storage, step: int) -> None:
    class Overtaken(InMemoryRootIds):
        questions = 0

        def expected(self, root: str) -> str | None:
            self.questions += 1
            if self.questions == step:
                storage.opened(self).create(SESSION)
            return super().expected(root)

    root_ids = Overtaken()
    locations = storage.opened(root_ids)
    assert storage.opened(root_ids).list() == locations.list()


def refused_for_its_records(storage: Storage, root_ids: RootIds | None) -> Sequence[str]:
    """Return the files that the error message tells the operator to remove."""
    with pytest.raises(RootTakenError) as refused:
        storage.opened(root_ids)
    return re.findall(r"\[([^\]]*/\.lodge/[^\]]*)\]", str(refused.value))


@pytest.mark.parametrize("is_in_files", [False, True])
def test_guarantee_6_root_of_other_records_is_refused_until_it_is_released(
    storage: Storage, *, is_in_files: bool
) -> None:
    root_ids, others = InMemoryRootIds(), None if is_in_files else InMemoryRootIds()
    locations = storage.opened(root_ids)
    place = locations.create(SESSION)
    for _ in range(2):
        with pytest.raises(RootTakenError, match=root_ids.records):
            storage.opened(others)
    root = str(place).removesuffix(f"/{SESSION}")
    assert refused_for_its_records(storage, others) == [f"{root}/.lodge/records", f"{root}/.lodge/root"]
    assert locations.list() == storage.opened(root_ids).list() == {SESSION}
    assert others is None or not others.ids
    for file in refused_for_its_records(storage, others):
        storage.remove(file)
    assert storage.opened(others).list() == {SESSION}
    with pytest.raises(RootError):
        storage.opened(root_ids)


def test_guarantee_6_process_that_knows_the_id_restores_the_records_mark(storage: Storage) -> None:
    root_ids, others = InMemoryRootIds(), InMemoryRootIds()
    storage.opened(root_ids).create(SESSION)
    others.ids |= root_ids.ids
    (file,) = refused_for_its_records(storage, others)
    storage.remove(file)
    assert storage.opened(others).list() == {SESSION}
    assert refused_for_its_records(storage, root_ids) == [file]


@pytest.mark.parametrize("is_in_files", [False, True])
def test_guarantee_6_unmarked_root_with_sessions_belongs_to_processes_that_know_it(
    storage: Storage, *, is_in_files: bool
) -> None:
    root_ids, others = InMemoryRootIds(), None if is_in_files else InMemoryRootIds()
    root = str(storage.opened(root_ids).create(SESSION)).removesuffix(f"/{SESSION}")
    storage.remove(f"{root}/.lodge/records")
    for _ in range(2):
        assert refused_for_its_records(storage, others) == [f"{root}/.lodge/root"]
    assert storage.opened(root_ids).list() == {SESSION}
    assert refused_for_its_records(storage, others) == [f"{root}/.lodge/records", f"{root}/.lodge/root"]


def test_guarantee_6_unmarked_empty_root_belongs_to_the_first_process(storage: Storage) -> None:
    root_ids = InMemoryRootIds()
    root = str(storage.opened().create(SESSION)).removesuffix(f"/{SESSION}")
    storage.opened().move_to_trash(SESSION)
    storage.remove(f"{root}/.lodge/records")
    assert storage.opened(root_ids).list() == set()
    refused_for_its_records(storage, None)


def test_guarantee_6_list_notices_that_a_root_belongs_to_other_records(storage: Storage) -> None:
    locations = storage.opened(InMemoryRootIds())
    storage.write(".lodge/records", b"others")
    with pytest.raises(RootTakenError, match="others"):
        locations.list()


def test_guarantee_6_one_of_two_concurrently_started_lodges_gets_the_root(storage: Storage) -> None:
    lodges = [InMemoryRootIds(), InMemoryRootIds()]

    def start(root_ids: InMemoryRootIds) -> str:
        try:
            storage.opened(root_ids)
        except RootTakenError:
            return ""
        return root_ids.records

    started = at_once([partial(start, lodge) for lodge in lodges * 3])
    (winner,) = set(started) - {""}
    assert started == [winner if lodge.records == winner else "" for lodge in lodges * 3]


def test_session_ends_completely_on_every_storage(
    storage: Storage, locations: SessionLocations, tmp_path: Path
) -> None:
    home = FileSessionLocations(tmp_path / "records")
    home.initialise()
    records = FileSessionRecords(home.home)
    stored = records.create(a_record(session_uuid=SESSION))
    place = locations.create(SESSION)
    locations.create(OTHER)
    for session in (SESSION, OTHER):
        storage.write(f"{session}/{TABLE}/part-0")
    done = end_session(records, locations, stored)
    assert done is not None
    assert done.locations == (place,)
    assert not records.list()
    purge_all(locations)
    assert set(storage.files()) == {f"{OTHER}/{TABLE}/part-0"}
