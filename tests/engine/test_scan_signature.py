"""Signatures of scans. Numbers in names are the guarantees of the module."""

import random

import pytest

from engine.scan_signature import KEY_BYTES, SIGNATURE, ScanKey, UnsignedScanError, check_signature, sign

KEY = ScanKey("0123456789abcdef" * 2, bytes(range(KEY_BYTES)))
OPTIONS = {"workspace": "dfs", "root": "/data", "path": "a.csv", "header": "true"}


@pytest.fixture
def directory(tmp_path):
    (tmp_path / KEY.file_name).write_bytes(KEY.secret)
    return tmp_path


def signed(options=OPTIONS, key=KEY):
    return {**options, SIGNATURE: sign(options, key)}


def test_guarantee_1_signed_options_are_accepted_in_any_case_and_order(directory):
    check_signature(signed(), directory)
    check_signature({name.upper(): value for name, value in reversed(signed().items())}, directory)


def test_guarantee_1_changed_options_are_refused(directory):
    given, rng = signed(), random.Random(1)  # noqa: S311 - must be repeatable, not secret
    changed = [
        OPTIONS,
        {**given, "path": "b.csv"},
        {**given, "files": "x"},
        {**given, SIGNATURE: ""},
        {name: value for name, value in given.items() if name != "header"},
        {**OPTIONS, "path": 'a.csv"], ["root', SIGNATURE: given[SIGNATURE]},
    ]
    for _ in range(200):
        text = given[SIGNATURE]
        place = rng.randrange(len(text))
        changed.append({**given, SIGNATURE: text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]})
    for options in changed:
        with pytest.raises(UnsignedScanError):
            check_signature(options, directory)


def test_guarantee_1_other_files_are_no_keys(tmp_path):
    with pytest.raises(UnsignedScanError):
        check_signature(signed(), tmp_path)  # no key
    for id_, secret in (("0" * 32, b""), ("1" * 32, bytes(KEY_BYTES + 1)), ("../../etc/x", KEY.secret)):
        key = ScanKey(id_, secret)
        if "/" not in id_:
            (tmp_path / key.file_name).write_bytes(secret)
        with pytest.raises(UnsignedScanError):
            check_signature(signed(key=key), tmp_path)
    (tmp_path / KEY.file_name).mkdir()
    with pytest.raises(UnsignedScanError):
        check_signature(signed(), tmp_path)


def test_secret_is_not_shown():
    assert KEY.secret.hex() not in repr(KEY)
    assert repr(KEY.secret) not in repr(KEY)
