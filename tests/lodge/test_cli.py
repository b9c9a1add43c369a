import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from lodge.settings import ServeSettings


def test_version_is_that_of_the_distribution() -> None:
    """The command itself runs; the other tests run forks."""
    done = subprocess.run([sys.executable, "-m", "lodge", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"lodge {version('spark-lodge')}\n"


def test_help_of_serve_explains_every_setting(lodge: Any) -> None:
    shown = lodge.run("serve", "--help").stdout
    for name in ServeSettings.model_fields:
        assert f"--{name.replace('_', '-')}" in shown
    for word in ("HOST:PORT", "NAME=URI", "sc://HOST:PORT", "DURATION", "FILE", "Default: 15s"):
        assert word in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "COMMAND"),
        (("dance",), "dance"),
        (("serve", "--listn=h:1"), "--listn"),
        (("reap", "--listen=h:1"), "--listen"),
        (("serve", "--lease-duration=soon"), "The value [soon] of the setting lease_duration is not valid"),
        (("serve", "--config=none.yaml"), "none.yaml"),
        (("serve", "--workspace=dfs.tmp=file:///does/not/exist"), "[/does/not/exist]"),
        (("serve", "--workspace=dfs.tmp=s3://bucket"), "[s3://bucket]"),
        (("reap", "--default-temporary-workspace=other"), "[other]"),
    ],
)
def test_bad_setting_is_one_line_and_status_2(lodge: Any, arguments: tuple[str, ...], named: str) -> None:
    done = lodge.run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("lodge: ")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version_line", "named"), [(None, "does not run"), ('openjdk version "11.0.2"', "11"), ("what?", "unknown")]
)
def test_unusable_java_is_one_line_and_status_1(
    lodge: Any, tmp_path: Path, version_line: str | None, named: str
) -> None:
    java = tmp_path / "java_home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    if version_line is not None:
        java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
        java.chmod(0o700)
    done = lodge.run("serve", JAVA_HOME=str(tmp_path / "java_home"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lodge: Java at [")
    assert named in done.stderr
    assert "Java 17 or later" in done.stderr


def test_address_in_use_is_one_line_and_status_1(lodge: Any) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = lodge.run(
            "serve",
            f"--listen=127.0.0.1:{port}",
            "--backend=sc://127.0.0.1:1",
            "--no-reaper",
            "--log-level=error",
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"127.0.0.1:{port}" in done.stderr.splitlines()[-1]
    assert "--listen" in done.stderr.splitlines()[-1]


def test_process_ends_without_the_finalization_of_python():
    program = """
import atexit
from lodge import __main__ as entry

class Finalized:
    def __del__(self):
        print("finalized", flush=True)

entry.finalized = Finalized()
entry.main = lambda: print("buffered") or 3
atexit.register(print, "closed")
entry.run()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.split()) == (3, ["buffered", "closed"])


def test_output_that_cannot_be_written_is_an_error():
    program = 'from lodge import __main__ as entry; entry.main = lambda: print("lost") or 0; entry.run()'
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False)
    assert ended.returncode != 0
