"""The command ``lodge token``."""

import os
import re
import secrets
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.authentication import token_entries
from gateway.authentication.token_entries import digest_of, is_lodge_token, parse_token_file
from lodge.cli import main


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.yaml"


def create(file: Path, principal: str, *options: str) -> int:
    return main(["token", "create", "--file", str(file), "--principal", principal, *options])


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_token_is_printed_once_and_its_hash_is_stored(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create(file, "ada", "--group", "ops", "--group", "analysts", "--expires", "30d") == 0
    printed = capsys.readouterr()
    token = printed.out.removesuffix("\n")
    assert is_lodge_token(token)
    assert token not in printed.err
    assert token not in file.read_text()
    (entry,) = parse_token_file(file, file.read_bytes())
    assert entry.digest == digest_of(token)
    assert (entry.principal, entry.groups) == ("ada", ("ops", "analysts"))
    assert entry.expires is not None
    assert timedelta(days=30) - timedelta(minutes=1) < entry.expires - datetime.now(UTC) <= timedelta(days=30)


def test_new_file_is_private_whatever_the_umask(file: Path) -> None:
    before = os.umask(0)
    try:
        create(file, "ada")
    finally:
        os.umask(before)
    assert mode(file) == 0o600


def test_existing_file_keeps_mode_and_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.yaml", tmp_path / "link.yaml"
    create(target, "ada")
    target.chmod(0o640)
    link.symlink_to("target.yaml")
    create(link, "bob")
    assert link.is_symlink()
    assert mode(target) == 0o640
    assert len(parse_token_file(target, target.read_bytes())) == 2


@pytest.mark.needs_root
def test_existing_file_keeps_its_owner(file: Path) -> None:
    create(file, "ada")
    os.chown(file, 65534, 65534)
    create(file, "bob")
    assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)


def test_concurrent_commands_lose_no_token(file: Path) -> None:
    def run(number: int) -> str:
        command = [sys.executable, "-m", "lodge", "token", "create", f"--file={file}", f"--principal=p{number}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    with ThreadPoolExecutor(4) as threads:
        tokens = list(threads.map(run, range(4)))
    entries = parse_token_file(file, file.read_bytes())
    assert {entry.digest for entry in entries} == {digest_of(token) for token in tokens}
    assert [path.name for path in file.parent.iterdir()] == [file.name], "no temporary file is left"


def test_new_token_has_an_id_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(["00000000", "00000000", "00000001"])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(ids))
    create(file, "ada")
    create(file, "bob")
    assert [entry.id for entry in parse_token_file(file, file.read_bytes())] == ["00000000", "00000001"]


def test_file_too_large_for_gateways_is_not_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create(file, "ada")
    before = file.read_bytes()
    monkeypatch.setattr(token_entries, "_MAX_FILE_BYTES", len(before) + 10)
    assert create(file, "bob") == 1
    assert "Revoke some tokens first" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_token_that_cannot_be_printed_is_revoked(file: Path) -> None:
    create(file, "ada")
    command = [sys.executable, "-m", "lodge", "token", "create", f"--file={file}", "--principal=bob"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "cannot be printed: No space left on device. Therefore it has been revoked." in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.principal for entry in parse_token_file(file, file.read_bytes())] == ["ada"]


def test_full_disk_changes_nothing(file: Path) -> None:
    create(file, "ada")
    before = file.read_bytes()
    limit = ["prlimit", f"--fsize={len(before) + 10}", "--"]  # gRPC does not support Python code between fork and exec
    command = [*limit, sys.executable, "-m", "lodge", "token", "create", f"--file={file}", "--principal=bob"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be changed: File too large" in done.stderr
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_killed_command_leaves_nothing_after_the_next_one(file: Path) -> None:
    create(file, "ada")
    command = [sys.executable, "-c", _KILLED_BEFORE_REPLACE, f"--file={file}"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert [entry.principal for entry in parse_token_file(file, file.read_bytes())] == ["ada"]
    create(file, "bob")
    assert list(file.parent.iterdir()) == [file]


_KILLED_BEFORE_REPLACE = """
import os, pathlib, signal, sys
from lodge.cli import main
pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(["token", "create", "--principal=eve", sys.argv[1]])
"""


def test_list_shows_entries_without_secrets(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(file, "ada", "--group", "ops", "--expires", "1h")
    create(file, "bob")
    tokens = capsys.readouterr().out.split()
    assert main(["token", "list", "--file", str(file)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ID +PRINCIPAL +GROUPS +CREATED +EXPIRES$", shown, re.MULTILINE)
    assert re.search(r"^[0-9a-f]{8} +ada +ops +\S+Z +\S+Z$", shown, re.MULTILINE)
    assert re.search(r"^[0-9a-f]{8} +bob +- +\S+Z +-$", shown, re.MULTILINE)
    assert not any(token in shown or digest_of(token).hex() in shown for token in tokens)


def test_revoke_removes_one_token(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(file, "ada")
    create(file, "bob")
    first, second = parse_token_file(file, file.read_bytes())
    assert main(["token", "revoke", "--file", str(file), first.id]) == 0
    assert parse_token_file(file, file.read_bytes()) == [second]
    assert main(["token", "revoke", "--file", str(file), first.id]) == 1
    assert f"contains no token with the id [{first.id}]" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["tokens: [", "tokens: [{id: a}]"])
def test_broken_file_is_not_changed(file: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(content)
    assert create(file, "ada") == 1
    assert file.read_text() == content
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"lodge: The token file [{file}] is not valid" in printed.err


def test_invalid_arguments_are_explained(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert create(file, "a\nb") == 2
    assert create(file, "ada", "--group", "") == 2
    assert create(file, "ada", "--expires", "9999999d") == 2
    assert main(["token", "list", "--file", str(file)]) == 1
    with pytest.raises(SystemExit):
        create(file, "ada", "--expires", "soon")
    assert capsys.readouterr().err.splitlines() == [
        "lodge: The name 'a\\nb' is not valid: it contains a control character or a line separator. Set another name "
        "with --principal or --group.",
        "lodge: The name '' is not valid: it is empty. Set another name with --principal or --group.",
        "lodge: The value of --expires is too large. Omit it for a token that does not expire.",
        f"lodge: The token file [{file}] cannot be read: No such file or directory. Create it with: lodge token create "
        f"--file {file} --principal NAME",
        "lodge: argument --expires: it must be a duration longer than zero, such as 500ms, 30s, 5m or 1h. See lodge "
        "token create --help.",
    ]
    assert not file.exists()
