"""Session locations in an object store when requests fail (workspace.object_store.session_locations)."""

import errno
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import urllib3

from reaper.table_directories import TableDirectories
from tests.records import a_record
from tests.workspace.in_memory_root_ids import InMemoryRootIds
from tests.workspace.object_store.raw_s3 import RawS3
from tests.workspace.object_store.servers import BUCKET, Server, read_only
from tests.workspace.object_store.storages import Objects, give_credentials
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.identifiers import SessionUuid, TableUuid
from workspace.object_store import s3_client
from workspace.object_store.bucket import Bucket
from workspace.object_store.contents_cache import LISTING_SECONDS
from workspace.object_store.s3_client import ObjectStoreError
from workspace.object_store.session_locations import ObjectSessionLocations
from workspace.root_identities import RootUnavailableError
from workspace.session_end import end_session

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
OTHER = SessionUuid("00000000-0000-4000-8000-000000000002")
TABLE = TableUuid("00000000-0000-4000-8000-00000000000a")
SECOND = TableUuid("00000000-0000-4000-8000-00000000000b")
MANY = 5_000
SOME = 8_000
PAUSED_READ_SECONDS = 3.0
"""For a server that is paused. It is long enough for one that a busy machine slows down."""


class DiedError(BaseException):
    """The process died here."""


class StoreOfADyingProcess(Bucket):
    """A bucket whose process dies when the n-th request has taken effect, or before the first one if n is 0."""

    def __init__(self, storage: Objects, step: int) -> None:
        super().__init__(storage.address)
        self.requests = 0
        self._step = step

    def _send_once(self, *args: Any, **kwargs: Any) -> Any:
        if self._step == 0:
            raise DiedError
        self.requests += 1
        answer = super()._send_once(*args, **kwargs)
        if self.requests == self._step:
            raise DiedError
        return answer


class StoreWithABadNetwork(Bucket):
    """A bucket that loses the first answer to every request, although the request takes effect."""

    def __init__(self, storage: Objects) -> None:
        super().__init__(storage.address)
        self._is_lost = False

    def _send_once(self, *args: Any, **kwargs: Any) -> Any:
        answer = super()._send_once(*args, **kwargs)
        self._is_lost = not self._is_lost
        if self._is_lost:
            raise urllib3.exceptions.ProtocolError("the connection was closed")
        return answer


class StoreWithoutConditionalWrites(Bucket):
    """A bucket that accepts every write, with an interruption after each read."""

    def __init__(self, storage: Objects, after_look: Callable[[], Any]) -> None:
        super().__init__(storage.address)
        self._after_look = after_look

    def get(self, key: str) -> bytes | None:
        found = super().get(key)
        self._after_look()
        return found

    def put_new(self, key: str, content: bytes) -> bool:
        self.put(key, content)
        return True


class RootIdsOfOneReplica(InMemoryRootIds):
    """The shared root ids from the view of one replica, with interruptions around each recording."""

    def __init__(self, shared: InMemoryRootIds, before: Callable[[], Any], after: Callable[[], Any]) -> None:
        super().__init__(shared.ids, records=shared.records)
        self._before, self._after = before, after

    def record(self, root: str, root_id: str) -> str:
        self._before()
        recorded = super().record(root, root_id)
        self._after()
        return recorded


class InTheMiddle(Bucket):
    """A bucket with an interruption after the n-th of certain requests."""

    def __init__(self, storage: Objects, name: str, step: int, intruder: Callable[[], Any]) -> None:
        super().__init__(storage.address)
        self._step = step
        self._intruder = intruder
        self._lock = threading.Lock()
        original = getattr(self, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with self._lock:
                self._step -= 1
                is_now = self._step == 0
            if is_now:
                self._intruder()
            return result

        setattr(self, name, call)


def many(directory: Path, storage: Objects, session: SessionUuid, objects: int = MANY) -> Path:
    """Create the objects of a location directly as files of the server."""
    location = directory / "objects" / storage.bucket / storage.prefix / session
    for n in range(20):
        (location / TABLE / f"p={n}").mkdir(parents=True)
        for m in range(objects // 20):
            (location / TABLE / f"p={n}" / f"part-{m}").write_bytes(b"data")
    return location


def count(location: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(location))


def opened(raw: RawS3, read_seconds: float = s3_client.READ_SECONDS) -> ObjectSessionLocations:
    storage = Objects(raw, BUCKET)
    store = Bucket(storage.address, read_seconds=read_seconds)
    locations = ObjectSessionLocations(storage.address, bucket=store, relist_seconds=0)
    locations.initialise()
    return locations


def purge_all(locations: ObjectSessionLocations) -> None:
    for entry in locations.trash():
        assert locations.purge(entry)
    assert not locations.trash()


@pytest.mark.slow
def test_session_end_interrupted_at_any_request_is_completed(storage: Objects, tmp_path: Path) -> None:
    home = FileSessionLocations(tmp_path / "records")
    home.initialise()
    records = FileSessionRecords(home.home)
    for step in itertools.count():
        store = StoreOfADyingProcess(storage, step)
        dying = ObjectSessionLocations(storage.address, bucket=store)
        stored = records.create(a_record(session_uuid=SESSION))
        after = storage.opened()
        after.create(OTHER)
        storage.write(f"{OTHER}/{TABLE}/part-0")
        was_dead = False
        try:
            dying.initialise()
            dying.create(SESSION)
            storage.write(f"{SESSION}/{TABLE}/part-0")
            storage.write(f"{SESSION}/{SECOND}/part-0")
            dying.remove_table(SESSION, SECOND)
            end_session(records, dying, stored)
        except DiedError:
            was_dead = True
        for found in records.list():
            end_session(records, after, found)
        purge_all(after)
        assert after.list() == {OTHER}
        assert storage.files() == {f"{OTHER}/{TABLE}/part-0": b"data"}
        assert storage.keys() == {".lodge/records", ".lodge/root", f"{OTHER}/.location", f"{OTHER}/{TABLE}/part-0"}
        if not was_dead:
            break
    assert step > 20


def test_location_in_the_trash_is_never_listed_after_an_interrupted_purge(storage: Objects) -> None:
    for step in itertools.count(1):
        locations = storage.opened()
        locations.create(SESSION)
        storage.write(f"{SESSION}/{TABLE}/part-0")
        locations.move_to_trash(SESSION)
        (entry,) = locations.trash()
        dying = ObjectSessionLocations(storage.address, bucket=StoreOfADyingProcess(storage, step))
        was_dead = False
        try:
            dying.purge(entry)
        except DiedError:
            was_dead = True
        assert locations.list() == set()
        assert locations.paths(SESSION) == []
        assert storage.files() == {} or locations.trash() == [entry]
        purge_all(locations)
        if not was_dead:
            break
    assert step > 5


def test_lost_answers_change_nothing(storage: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workspace.object_store.s3_client._LONGEST_PAUSE_SECONDS", 0.01)
    storage.opened()
    store = StoreWithABadNetwork(storage)
    locations = ObjectSessionLocations(storage.address, bucket=store, relist_seconds=0)
    locations.initialise()
    place = locations.create(SESSION)
    locations.create(OTHER)
    for table in (TABLE, SECOND):
        storage.write(f"{SESSION}/{table}/part-0")
    assert locations.size_bytes(SESSION, TABLE) == 4
    locations.copy_table((SESSION, TABLE), (OTHER, TABLE))
    assert locations.remove_table(SESSION, SECOND)
    assert locations.move_to_trash(SESSION) == [place]
    assert locations.list() == {OTHER}
    assert len(locations.trash_of(SESSION)) == 2
    purge_all(locations)
    assert set(storage.files()) == {f"{OTHER}/{TABLE}/part-0"}


def test_concurrent_starts_agree_on_one_id_without_conditional_writes(storage: Objects) -> None:
    shared = InMemoryRootIds()
    both_looked, has_looked = threading.Barrier(2), threading.local()
    early_records, late_records, early_recorded = threading.Event(), threading.Event(), threading.Event()

    def after_look_of_early() -> None:
        if not hasattr(has_looked, "once"):
            has_looked.once = True
            both_looked.wait(30)

    def after_look_of_late() -> None:
        after_look_of_early()
        assert early_records.wait(30)

    def before_early_records() -> None:
        early_records.set()
        assert late_records.wait(30)

    def before_late_records() -> None:
        late_records.set()
        assert early_recorded.wait(30)

    def start(after_look: Callable[[], Any], before: Callable[[], Any], after: Callable[[], Any]) -> None:
        store = StoreWithoutConditionalWrites(storage, after_look)
        root_ids = RootIdsOfOneReplica(shared, before, after)
        ObjectSessionLocations(storage.address, root_ids, bucket=store).initialise()

    with ThreadPoolExecutor(2) as executor:
        early = executor.submit(start, after_look_of_early, before_early_records, early_recorded.set)
        late = executor.submit(start, after_look_of_late, before_late_records, lambda: None)
        assert [early.exception(60), late.exception(60)] == [None, None]
    assert storage.opened(shared).list() == set()


def test_first_start_interrupted_at_any_request_can_be_repeated(storage: Objects) -> None:
    for step in itertools.count():
        root_ids = InMemoryRootIds()
        store = StoreOfADyingProcess(storage, step)
        was_dead = False
        try:
            ObjectSessionLocations(storage.address, root_ids, bucket=store).initialise()
        except DiedError:
            was_dead = True
        assert storage.opened(root_ids).list() == set()
        storage.unmount()
        with pytest.raises(RootUnavailableError):
            storage.opened(root_ids)
        if not was_dead:
            break
    assert step > 5


@pytest.mark.slow
def test_server_failures_during_a_purge_only_delay_it(server: Server, tmp_path: Path) -> None:
    """One purge meets a paused server, and the next one a killed server."""
    locations, storage = opened(server.raw, PAUSED_READ_SECONDS), Objects(server.raw, BUCKET)
    locations.create(OTHER)
    storage.write(f"{OTHER}/{TABLE}/part-0")
    location = many(tmp_path, storage, SESSION, SOME)
    assert locations.list() == {SESSION, OTHER}
    locations.move_to_trash(SESSION)
    (entry,) = locations.trash()
    before = SOME
    for fail, recover in (
        (server.process.pause, server.process.resume),
        (server.process.kill, server.process.start),
    ):
        looks = itertools.count()

        def fail_in_the_middle(looks: Iterator[int] = looks, fail: Callable[[], None] = fail) -> bool:
            if next(looks) == 3:
                fail()
            return False

        with pytest.raises(OSError, match="cannot be reached"):
            locations.purge(entry, fail_in_the_middle)
        for look in (locations.list, lambda: locations.move_to_trash(OTHER)):
            with pytest.raises(ObjectStoreError, match="cannot be reached"):
                look()
        left = count(location)
        assert 0 < left < before
        recover()
        assert locations.trash() == [entry]
        assert locations.list() == {OTHER}
        before = left
    purge_all(opened(server.raw))
    assert not count(location)
    assert set(storage.files()) == {f"{OTHER}/{TABLE}/part-0"}


@pytest.mark.slow
def test_killed_server_leaves_a_complete_location_or_a_tombstone(server: Server, tmp_path: Path) -> None:
    storage = Objects(server.raw, BUCKET)
    for round_number in range(4):
        locations = opened(server.raw)
        session = SessionUuid(f"00000000-0000-4000-8000-0000000001{round_number:02}")
        many(tmp_path, storage, session, 200)
        begun = threading.Event()

        def move_to_trash(
            locations: ObjectSessionLocations = locations,
            session: SessionUuid = session,
            begun: threading.Event = begun,
        ) -> Any:
            begun.set()
            return locations.move_to_trash(session)

        with ThreadPoolExecutor(1) as executor:
            setting_aside = executor.submit(move_to_trash)
            begun.wait(30)
            time.sleep(0.003 * round_number)
            server.process.kill()
            error = setting_aside.exception(60)
        server.process.start()
        if error is None:
            assert locations.list() == set()
            assert locations.trash_of(session)
        else:
            assert isinstance(error, OSError)
            assert (session in locations.list()) == (not locations.trash_of(session))
        locations.move_to_trash(session)
        purge_all(locations)
        assert not storage.files()


def test_tombstone_that_a_killed_server_only_seems_to_have_is_written(server: Server, tmp_path: Path) -> None:
    locations, storage = opened(server.raw), Objects(server.raw, BUCKET)
    locations.create(SESSION)
    storage.write(f"{SESSION}/{TABLE}/part-0")
    locations.move_to_trash(SESSION)
    (entry,) = locations.trash()
    written = set(_attributes_of(tmp_path, entry))
    assert written
    purge_all(locations)
    locations.create(SESSION)
    for attribute, content in written:
        attribute.parent.mkdir(parents=True, exist_ok=True)
        attribute.write_bytes(content)
    assert locations.list() == {SESSION}
    assert locations.move_to_trash(SESSION)
    assert locations.list() == set()
    purge_all(locations)
    assert not storage.files()


def _attributes_of(directory: Path, entry: str) -> Iterator[tuple[Path, bytes]]:
    """Yield the attributes that versitygw wrote before an object."""
    for path in directory.rglob("meta/*"):
        if path.parents[1].name == entry.rpartition("/")[2]:
            yield path, path.read_bytes()


def test_read_only_credentials_are_an_error_without_changes(server: Server, tmp_path: Path) -> None:
    locations, storage = opened(server.raw), Objects(server.raw, BUCKET)
    for session in (SESSION, OTHER):
        locations.create(session)
        storage.write(f"{session}/{TABLE}/part-0")
    locations.move_to_trash(OTHER)
    (entry,) = locations.trash()
    before = storage.keys()
    with read_only(server, tmp_path) as other:
        give_credentials(other.raw.access_key, other.raw.secret_key, os.environ)
        reading = opened(other.raw)
        assert reading.list() == {SESSION}
        assert reading.size_bytes(SESSION, TABLE) == 4
        for change in (
            lambda: reading.create(SESSION),
            lambda: reading.move_to_trash(SESSION),
            lambda: reading.remove_table(SESSION, TABLE),
            lambda: reading.purge(entry),
            lambda: reading.copy_table((SESSION, TABLE), (SESSION, SECOND)),
        ):
            with pytest.raises(OSError, match="AccessDenied") as failed:
                change()
            assert failed.value.errno == errno.EACCES
            assert "object-storage" in str(failed.value)
        assert reading.list() == {SESSION}
    assert storage.keys() == before
    purge_all(locations)


@pytest.mark.parametrize("wrong", ["secret", "account", "nothing given"])
def test_error_for_wrong_credentials_does_not_show_them(
    server: Server, capfd: pytest.CaptureFixture[str], *, wrong: str
) -> None:
    raw, storage = server.raw, Objects(server.raw, BUCKET)
    storage.opened().create(SESSION)
    given = {"secret": (raw.access_key, "wrongsecret"), "account": ("wrongaccount", raw.secret_key)}
    if wrong in given:
        give_credentials(*given[wrong], os.environ)
    else:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
        os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    locations = ObjectSessionLocations(storage.address)
    for look in (locations.initialise, locations.list, lambda: locations.move_to_trash(SESSION)):
        with pytest.raises(ObjectStoreError, match=r"refused|no credentials") as failed:
            look()
        told = f"{failed.value!s} {failed.value!r} {failed.value.__cause__!r}"
        for secret in (raw.secret_key, raw.access_key, "wrongsecret", "wrongaccount"):
            assert secret not in told
    assert raw.secret_key not in "".join(capfd.readouterr())


@pytest.mark.slow
def test_purge_of_many_objects_delays_no_other_location(server: Server, tmp_path: Path) -> None:
    locations, storage = opened(server.raw), Objects(server.raw, BUCKET)
    location = many(tmp_path, storage, SESSION)
    locations.create(OTHER)
    storage.write(f"{OTHER}/{TABLE}/part-0")
    assert locations.size_bytes(SESSION, TABLE) == 4 * MANY
    for session in (SESSION, OTHER):
        locations.move_to_trash(session)
    (large,), (small,) = locations.trash_of(SESSION), locations.trash_of(OTHER)
    looks = itertools.count()
    assert not locations.purge(large, lambda: next(looks) >= 3)
    assert 0 < count(location) == MANY - 3000
    begun, proceed = threading.Event(), threading.Event()

    def wait_in_the_middle() -> bool:
        begun.set()
        assert proceed.wait(60), "the other purge ends"
        return False

    with ThreadPoolExecutor(1) as executor:
        purging = executor.submit(locations.purge, large, wait_in_the_middle)
        assert begun.wait(60)
        assert locations.purge(small)
        assert not purging.done()
        proceed.set()
        assert purging.result()
    assert not count(location)
    assert not locations.trash()


def test_objects_written_during_a_purge_are_found_again(storage: Objects) -> None:
    locations = storage.opened()
    locations.create(SESSION)
    stop, begun = threading.Event(), threading.Event()

    def write() -> None:
        for number in itertools.count():
            with suppress(OSError):  # pyarrow uploads in parts, which a purge may give up under its hands
                storage.write(f"{SESSION}/{TABLE}/_temporary/part-{number}")
            begun.set()
            if stop.is_set():
                return

    with ThreadPoolExecutor(1) as executor:
        writing = executor.submit(write)
        assert begun.wait(30)
        for _ in range(5):
            locations.move_to_trash(SESSION)
            for entry in locations.trash():
                try:
                    locations.purge(entry)
                except OSError as error:
                    assert error.errno == errno.ENOTEMPTY
                    assert locations.list() == set()
        stop.set()
        writing.result()
    for _ in range(2):
        locations.move_to_trash(SESSION)
        purge_all(locations)
    assert locations.list() == set()
    assert not storage.files()


@pytest.mark.parametrize("intrusion", ["table removed", "location removed", "both purged", "a file deleted"])
@pytest.mark.parametrize("step", [1, 3])
def test_table_that_is_removed_during_its_copy_is_an_error(storage: Objects, *, intrusion: str, step: int) -> None:
    other = storage.opened()
    for session in (SESSION, OTHER):
        other.create(session)
    for n in range(3):
        storage.write(f"{SESSION}/{TABLE}/part-{n}")

    def intrude() -> None:
        if intrusion == "a file deleted":
            storage.raw.request("DELETE", f"/{storage.bucket}/{storage.prefix}/{SESSION}/{TABLE}/part-1")
        elif intrusion == "table removed":
            other.remove_table(SESSION, TABLE)
        else:
            other.move_to_trash(SESSION)
        if intrusion == "both purged":
            purge_all(other)

    copying = ObjectSessionLocations(storage.address, bucket=InTheMiddle(storage, "copy", step, intrude))
    with pytest.raises(FileNotFoundError):
        copying.copy_table((SESSION, TABLE), (OTHER, TABLE))


def test_multi_part_uploads_are_aborted_with_their_location(storage: Objects) -> None:
    locations = storage.opened()
    for session in (SESSION, OTHER):
        locations.create(session)
        key = f"/{storage.bucket}/{storage.prefix}/{session}/{TABLE}/part-0"
        status, _ = storage.raw.request("POST", key, query={"uploads": ""})
        assert status == 200

    def uploads() -> bytes:
        return storage.raw.request("GET", f"/{storage.bucket}", query={"uploads": ""})[1]

    assert uploads().count(b"<UploadId>") == 2
    locations.move_to_trash(SESSION)
    purge_all(locations)
    assert uploads().count(b"<UploadId>") == 1
    assert OTHER.encode() in uploads()


def test_contents_of_a_location_are_cached(storage: Objects) -> None:
    seconds = [0.0]
    store = StoreOfADyingProcess(storage, -1)
    locations = ObjectSessionLocations(storage.address, bucket=store, relist_seconds=60, monotonic=lambda: seconds[0])
    locations.initialise()
    locations.create(SESSION)

    def look() -> Mapping[str, Any]:
        before = store.requests
        (root,) = locations.roots()
        stamp, inside = root.stamp(SESSION), root.contents(SESSION)
        return {"requests": store.requests - before, "tables": inside.tables, "stamp": stamp}

    first = look()
    assert first["requests"] == 4
    storage.write(f"{SESSION}/{TABLE}/part-0")
    assert look() == first | {"requests": 3}
    seconds[0] = 61
    found = look()
    assert (found["requests"], found["tables"]) == (4, {TABLE})
    assert found["stamp"] != first["stamp"]
    locations.remove_table(SESSION, TABLE)
    assert look()["tables"] == set()


class StoreWithManyLocations(Bucket):
    """A bucket with one table per location, where a callback runs for each listing."""

    def __init__(self, storage: Objects, listing: Callable[[str], None], count: int = 100) -> None:
        super().__init__(storage.address)
        self.sessions = [f"00000000-0000-4000-8000-{number:012}" for number in range(count)]
        self._listing = listing
        self._prefix = f"{storage.prefix}/"

    def names(self, prefix: str) -> Iterator[str]:
        below = prefix.removeprefix(self._prefix)
        if below in {f"{session}/" for session in self.sessions}:
            self._listing(below.removesuffix("/"))
            yield f"{TABLE}/"
        elif not below:
            yield from (f"{session}/" for session in self.sessions)


def test_many_locations_are_listed_concurrently(storage: Objects) -> None:
    others = threading.Barrier(4)
    store = StoreWithManyLocations(storage, lambda _: others.wait(30) and None)
    locations = ObjectSessionLocations(storage.address, bucket=store)
    locations.initialise()
    (root,) = locations.roots()
    assert all(root.contents(SessionUuid(each)).tables == {TABLE} for each in store.sessions)


def test_locations_that_found_no_time_are_listed_next(storage: Objects) -> None:
    lock, seconds = threading.Lock(), [0.0]

    def listing(_: str) -> None:
        with lock:
            seconds[0] += LISTING_SECONDS / 40

    store = StoreWithManyLocations(storage, listing)
    locations = ObjectSessionLocations(storage.address, bucket=store, monotonic=lambda: seconds[0], relist_seconds=1e6)
    locations.initialise()

    def listed() -> int:
        (root,) = locations.roots()
        assert locations.list() == set(store.sessions)
        return sum(root.contents(SessionUuid(each)).tables == {TABLE} for each in store.sessions)

    first = listed()
    assert 40 <= first < 100
    assert listed() > first
    assert listed() == 100


def test_location_that_cannot_be_listed_is_retried_and_blocks_no_other(storage: Objects) -> None:
    failures = iter([True])

    def listing(_: str) -> None:
        if next(failures, False):
            raise ObjectStoreError("the server is busy")

    store = StoreWithManyLocations(storage, listing)
    locations = ObjectSessionLocations(storage.address, bucket=store)
    locations.initialise()
    found = TableDirectories(locations).read(locations.list(), 0.0)
    assert sorted(len(known.tables) for known in found.values()) == [0] + 99 * [1]
    assert [str(known.error) for known in found.values() if known.error] == ["the server is busy"]
    (root,) = locations.roots()
    assert all(root.contents(SessionUuid(each)).tables == {TABLE} for each in store.sessions)


def test_slow_failing_locations_leave_the_others_their_turn(storage: Objects) -> None:
    lock, seconds = threading.Lock(), [0.0]
    bad: set[str] = set()

    def listing(session: str) -> None:
        if session in bad:
            with lock:
                seconds[0] += LISTING_SECONDS / 40
            raise ObjectStoreError("the server is busy")

    store = StoreWithManyLocations(storage, listing, 300)
    bad |= set(store.sessions[20:])
    locations = ObjectSessionLocations(storage.address, bucket=store, monotonic=lambda: seconds[0], relist_seconds=1e6)
    locations.initialise()

    def listed() -> set[str]:
        (root,) = locations.roots()
        inside = {each: root.contents for each in store.sessions if each not in bad}
        return {each for each, look in inside.items() if look(SessionUuid(each)).tables == {TABLE}}

    for _ in range(8):
        found = listed()
    assert found == set(store.sessions[:20])
    bad.clear()
    listed()
    assert listed() == set(store.sessions)


def test_object_store_error_has_the_code_of_the_server(storage: Objects) -> None:
    missing = Bucket(Objects(storage.raw, "nobody-has-this").address)
    with pytest.raises(ObjectStoreError, match="Create the bucket") as failed:
        missing.get("key")
    assert failed.value.code == "NoSuchBucket"
    assert isinstance(failed.value, OSError)
