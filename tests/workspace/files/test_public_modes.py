"""A public table never makes a private file of another user public."""

import os
import stat

import pytest

from workspace.files.table_files import ForeignFileError, make_public

as_root = pytest.mark.needs_root
OTHER = 12345


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def table(tmp_path):
    directory = tmp_path / "table"
    (directory / "b=1").mkdir(parents=True, mode=0o700)
    for path in (directory / "a.parquet", directory / "b=1" / "b.parquet"):
        path.touch(0o600)
    return directory


def test_own_files_become_public(table):
    make_public(table)
    assert {mode(path) for path in (table, table / "b=1")} == {0o775}
    assert {mode(path) for path in (table / "a.parquet", table / "b=1" / "b.parquet")} == {0o644}


def test_hard_link_to_own_file_is_refused(table, tmp_path):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    (table / "b=1" / "x.parquet").hardlink_to(secret)
    with pytest.raises(ForeignFileError):
        make_public(table)
    assert mode(secret) == 0o600


@as_root
def test_root_does_not_open_files_of_other_users_through_hard_links(table, tmp_path):
    secret = tmp_path / "secret"
    secret.touch(0o600)
    os.chown(secret, OTHER, OTHER)
    (table / "x.parquet").hardlink_to(secret)
    with pytest.raises(ForeignFileError):
        make_public(table)
    secret.unlink()  # now the link is the only name of the file
    with pytest.raises(ForeignFileError):
        make_public(table)
    assert mode(table / "x.parquet") == 0o600


@as_root
def test_files_of_impersonated_owner_become_public(table):
    for path in (table, *table.rglob("*")):
        os.chown(path, OTHER, OTHER)
    make_public(table)
    assert mode(table / "a.parquet") == 0o644


def test_special_file_is_refused(table):
    os.mkfifo(table / "fifo")
    with pytest.raises(ForeignFileError):
        make_public(table)
