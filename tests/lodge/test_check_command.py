"""``lodge check`` does what a client does, and leaves nothing behind."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lodge.cli import main
from tests.conftest import LodgeProcess
from tests.identity.methods import create_token

pytestmark = pytest.mark.slow

STEPS = [
    "Created the temporary table [lodge_check].",
    "Read 1000 rows from the table.",
    "Dropped the table.",
    "Released the session. The check has succeeded.",
]


def check(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lodge", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_check_sends_a_token_uses_a_table_and_leaves_nothing(
    start_lodge: Callable[..., LodgeProcess], spark_server: str, tmp_path: Path
) -> None:
    tokens, token, wrong = tmp_path / "tokens.yaml", tmp_path / "token", tmp_path / "wrong"
    token.write_text(create_token(tokens, "ada"))
    wrong.write_text("nothing;=%41==")
    settings = tmp_path / "lodge.yaml"
    settings.write_text(f"authentication: [{{kind: tokens, file: {tokens}}}]")
    gateway = start_lodge("--config", str(settings), backend=spark_server)
    address = gateway.address.replace("127.0.0.1", "localhost")
    result = check(address, "--token-file", str(token))
    assert (result.returncode, result.stderr) == (0, "")
    first, second, *others = result.stdout.splitlines()
    assert first == f"Connecting to {address} ..."
    assert second.startswith("Connected to Spark ")
    assert others == STEPS
    assert gateway.locations() == []
    assert gateway.records() == []
    refused = check(address, "--token-file", str(wrong))
    assert refused.returncode == 1
    assert f"lodge: The check of [{address}] failed: " in refused.stderr
    assert "nothing" not in refused.stderr


def test_check_of_a_failing_statement_releases_the_session(
    start_lodge: Callable[..., LodgeProcess], spark_server: str
) -> None:
    """The check has no token, because the gateway needs none."""
    gateway = start_lodge("--max-session-bytes", "1", backend=spark_server)
    result = check(gateway.address)
    assert result.returncode == 1
    assert "Connected to Spark " in result.stdout
    assert "failed: " in result.stderr
    assert gateway.records() == []


def test_check_of_a_silent_address_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"sc://127.0.0.1:{silent.getsockname()[1]}"
        result = check(address, "--timeout", "3")
    assert result.returncode == 1
    assert f"lodge: The check of [{address}] failed: it has not finished after 3 seconds" in result.stderr


def test_unreadable_token_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    for file in ("token", "absent"):
        assert main(["check", "sc://localhost:1", "--token-file", str(tmp_path / file)]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"lodge: The token file [{tmp_path / file}] cannot be read: ")
