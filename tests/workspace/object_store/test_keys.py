"""Object keys that are not valid paths (workspace.object_store.bucket, 1)."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace.object_store.servers import BUCKET, Server, over_files, with_exact_keys
from tests.workspace.object_store.storages import Objects, give_credentials
from workspace.identifiers import SessionUuid, TableUuid
from workspace.locations import Owner, OwnerError
from workspace.object_store.bucket import Bucket
from workspace.root_identities import RootError

SESSION = SessionUuid("00000000-0000-4000-8000-000000000001")
OTHER = SessionUuid("00000000-0000-4000-8000-000000000002")
TABLE = TableUuid("00000000-0000-4000-8000-00000000000a")

ODD = [
    "",
    "/",
    "//",
    "/..",
    "..",
    "../x",
    f"../{OTHER}/{TABLE}/part-0",
    "../../../etc/passwd",
    "./y",
    f"{TABLE}/",
    f"{TABLE}//part",
    f"{TABLE}/../{TABLE}/part",
    f"{TABLE}/a b\nc\td\re",
    f"{TABLE}/a+b&c%20<d>'\"%2F%00",
    f"{TABLE}/..\\..\\q",
    f"{TABLE}/日本 ü\U0001f600",
    f"{TABLE}/{'x' * 700}",
    f"{TABLE}/?list-type=2",
    f"{TABLE}/#fragment",
]


@pytest.fixture(params=["exact keys", "keys are paths"])
def server(request: pytest.FixtureRequest, s3_programs: None, tmp_path: Path) -> Iterator[Server]:
    start = with_exact_keys if request.param == "exact keys" else over_files
    with start(tmp_path) as server:
        give_credentials(server.raw.access_key, server.raw.secret_key, os.environ)
        yield server


@pytest.fixture
def storage(server: Server) -> Objects:
    return Objects(server.raw, BUCKET)


def outside(storage: Objects) -> list[str]:
    """Return keys that resemble keys of the location but are outside it."""
    kept = ["etc/passwd", "x", f"{storage.prefix}x/{SESSION}/part", f"{storage.prefix}/{OTHER}/{TABLE}/part-0"]
    kept += [f"{storage.prefix}/{SESSION}-", f"{storage.prefix}/{SESSION}x/part", f"{storage.prefix}/{SESSION}.x/part"]
    kept += [f"{SESSION}/{TABLE}/part", f"{storage.prefix}/other"]
    for key in kept:
        assert storage.raw.put(storage.bucket, key, b"kept") == 200
    return kept


def test_all_keys_of_a_location_are_deleted_and_no_others(storage: Objects) -> None:
    locations = storage.opened()
    locations.create(SESSION)
    for odd in ODD:
        storage.raw.put(storage.bucket, f"{storage.prefix}/{SESSION}/{odd}", b"" if odd.endswith("/") else b"data")
    kept = outside(storage)  # afterwards, for where keys are paths, ".." wrote there
    assert locations.list() == {SESSION, OTHER}
    inside = locations.roots()[0].contents(SESSION)
    assert inside.tables == {TABLE}
    assert locations.size_bytes(SESSION, TABLE) > 0
    assert locations.remove_table(SESSION, TABLE)
    locations.move_to_trash(SESSION)
    for entry in locations.trash():
        assert locations.purge(entry)
    assert locations.list() == {OTHER}
    left = set(storage.raw.keys(storage.bucket))
    assert not {
        key for key in left if key.startswith((f"{storage.prefix}/{SESSION}/", f"{storage.prefix}/.lodge/trash"))
    }
    assert set(kept) <= left
    assert all(storage.raw.get(storage.bucket, key) == b"kept" for key in kept)


def test_copy_keeps_unusual_keys(storage: Objects) -> None:
    locations = storage.opened()
    for session in (SESSION, OTHER):
        locations.create(session)
    written = set()
    for odd in ODD:
        key = f"{storage.prefix}/{SESSION}/{odd}"
        if odd.startswith(f"{TABLE}/") and ".." not in odd and storage.raw.put(storage.bucket, key, b"data") == 200:
            written.add(key)
    listed = {key for key in storage.raw.keys(storage.bucket) if key.startswith(f"{storage.prefix}/{SESSION}/{TABLE}/")}
    locations.copy_table((SESSION, TABLE), (OTHER, TABLE))
    copied = {key for key in storage.raw.keys(storage.bucket) if key.startswith(f"{storage.prefix}/{OTHER}/{TABLE}/")}
    assert {key.replace(SESSION, OTHER) for key in listed} == copied
    assert len(copied) > 5


def test_invalid_tombstones_are_ignored(storage: Objects) -> None:
    locations = storage.opened()
    locations.create(SESSION)
    trash = f"{storage.prefix}/.lodge/trash/"
    for name in ("", "x", f"{SESSION}", f"{SESSION}.location.x", f"{SESSION}.location/x", f"../{SESSION}.location"):
        storage.raw.put(storage.bucket, f"{trash}{name}", b"" if not name else b"data")
    assert locations.list() == {SESSION}
    assert locations.trash() == []
    assert locations.trash_of(SESSION) == []


def test_location_in_the_trash_cannot_be_created_before_its_purge(storage: Objects) -> None:
    locations = storage.opened()
    locations.create(SESSION)
    locations.move_to_trash(SESSION)
    with pytest.raises(FileNotFoundError, match="in the trash"):
        locations.create(SESSION)
    for entry in locations.trash():
        locations.purge(entry)
    locations.create(SESSION)
    assert locations.list() == {SESSION}


def test_owners_and_other_roots_are_refused(storage: Objects, tmp_path: Path) -> None:
    locations = storage.opened()
    with pytest.raises(OwnerError, match="no OS users"):
        locations.create(SESSION, Owner(1000, 1000))
    assert locations.list() == set()
    locations.set_current_root(storage.address.storage_path)
    for other in (tmp_path, "s3://bucket/other"):
        with pytest.raises(RootError, match="cannot move"):
            locations.set_current_root(other)
    assert locations.known_roots() == [storage.address.storage_path]


@pytest.mark.slow
def test_listings_have_many_pages(storage: Objects) -> None:
    store = Bucket(storage.address)
    for n in range(1050):
        storage.raw.put(storage.bucket, f"{storage.prefix}/many/{n:04}/x")
    pages = list(store.pages(f"{storage.prefix}/many/"))
    assert [len(page) for page in pages] == [1000, 50]
    assert len(set(store.names(f"{storage.prefix}/many/"))) == 1050
    assert next(iter(store.names(f"{storage.prefix}/many/"))) == "0000/"
