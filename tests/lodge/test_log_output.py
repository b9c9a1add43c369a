"""The log of a process whose reader stalls, fails or goes away."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from lodge.log_output import LogOutput
from tests.conftest import wait_until

LINE = "x" * 999 + "\n"
SECONDS = 60.0
"""A wait that does not end by itself, even on a slow machine."""

FLOOD = """
import sys, time, structlog
from lodge.logs import set_up_logs
set_up_logs("info")
begin = time.monotonic()
for number in range(30_000):
    structlog.get_logger().info("flood", number=number, text="x" * 1000)
print("done", flush=True)
sys.stdin.readline()
structlog.get_logger().info("last")
"""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue


def output_to(descriptor: int, max_waiting_bytes: int, monotonic: Callable[[], float] = time.monotonic) -> LogOutput:
    return LogOutput(descriptor, lambda count: f"{count} lost", max_waiting_bytes, monotonic)


def test_writing_does_not_wait_for_a_reader_and_lost_lines_are_counted(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = output_to(writer, 100_000)
    for _ in range(1000):
        output.write(LINE)
    assert output.lost_lines > 500
    lost = output.lost_lines
    lines = read_lines(reader, 1000 - lost)
    assert lines == [LINE] * (1000 - lost)
    output.write(LINE)
    assert read_lines(reader, 2) == [f"{lost} lost\n", LINE]
    output.close()


def test_line_is_written_when_the_call_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodge.log_output._WAIT_SECONDS", SECONDS)
    with (tmp_path / "log").open("wb") as file:
        output = output_to(file.fileno(), 100_000, monotonic=itertools.count(0.0, SECONDS).__next__)
        for number in range(200):
            output.write(f"{number}\n")
            assert (tmp_path / "log").read_text().endswith(f"{number}\n")
        output.close()


def test_calls_together_do_not_wait_longer_than_one(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodge.log_output._WAIT_SECONDS", SECONDS)
    monkeypatch.setattr("lodge.log_output._PERIOD_SECONDS", float("inf"))
    reader, writer = pipe
    output = output_to(writer, 10_000_000, monotonic=itertools.count(0.0, SECONDS / 2).__next__)
    for _ in range(2):
        output.write(LINE)  # by the clock, each call waits for half the time
    begun = time.monotonic()
    for _ in range(100):
        output.write(LINE)  # the pipe takes only a part of the lines
    assert time.monotonic() - begun < SECONDS
    assert read_lines(reader, 102) == [LINE] * 102, "no line is lost"
    output.close()


def test_process_ends_although_nobody_reads(pipe: tuple[int, int]) -> None:
    output = output_to(pipe[1], 10_000_000)
    for _ in range(1000):
        output.write(LINE)
    begun = time.monotonic()
    output.close(0.2)
    assert time.monotonic() - begun < 60


def test_lines_are_written_again_after_a_full_disk() -> None:
    with Path("/dev/full").open("wb") as full:
        output = output_to(full.fileno(), 1_000_000)
        output.write(LINE)
        wait_until(lambda: output.lost_lines == 1, "the line is counted as lost")
        reader, writer = os.pipe()
        os.dup2(writer, full.fileno())
        output.write(LINE)
        assert read_lines(reader, 2) == ["1 lost\n", LINE]
        output.close()
        os.close(reader)
        os.close(writer)


def test_reader_that_goes_away_does_no_harm(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = output_to(writer, 1_000_000)
    os.close(reader)
    output.write(LINE)
    wait_until(lambda: output.lost_lines == 1, "the line is counted as lost")
    output.write(LINE)
    output.close()


def test_process_logs_on_while_nobody_reads_its_log() -> None:
    command = [sys.executable, "-c", FLOOD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"  # it would never come if logging waited for the pipe
        _, log = process.communicate(b"\n", timeout=60)
    lines = [json.loads(line) for line in log.splitlines()]
    (lost,) = [line["count"] for line in lines if line["event"] == "log_lines_lost"]
    assert len([line for line in lines if line["event"] == "flood"]) == 30_000 - lost
    assert lines[-1]["event"] == "last"


def read_lines(descriptor: int, count: int) -> list[str]:
    with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
        return [_read_line(file) for _ in range(count)]


def _read_line(file: IO[bytes]) -> str:
    return file.readline().decode()
