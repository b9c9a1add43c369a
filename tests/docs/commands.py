"""Runs the commands of a documentation page, in order and in one directory.

The language of a fenced block decides what happens with it:

==========  ===========================================================================================
``bash``    Runs with ``bash -euo pipefail``. Exported variables are kept for later blocks. A block whose
            only command is ``lodge serve`` runs in the background until the page ends, and so does a command
            that ends with ``&``.
``python``  Runs as a program.
``yaml``    Is written to a file if its first line is a comment with a file name, such as ``# lodge.yaml``.
``text``    Is the expected output of the block before it. ``…`` stands for any text.
others      Are ignored.
==========  ===========================================================================================

`Replacements` adapt a page to the machine: names and ports of the page that tests cannot use.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from markdown_it import MarkdownIt

from tests.cluster.processes import DIES_WITH_PARENT

COMMAND_SECONDS = 300
START_SECONDS = 180
_READY = re.compile(r"Lodge is ready at ")
_FILE_NAME = re.compile(r"# (\S+\.ya?ml)\n")
_BACKGROUND = re.compile(r"[^&]&$", re.MULTILINE)
_SERVE = re.compile(r"(?:\w+=\S+ )*lodge serve\b")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, also those in list items."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text()):
        if token.type == "fence" and token.map is not None:
            yield Block(page, token.map[0] + 1, token.info.strip(), token.content)


class CommandError(AssertionError):
    """A command of a page has failed, or its output differs."""


class PageRun:
    """A context manager that runs the blocks of a page.

    Args:
        directory: The working directory.
        variables: Environment variables, in addition to those of this process without ``LODGE_*``.
        replacements: Texts of the page, and what replaces them.
        seconds: The time limit of each block.
    """

    def __init__(
        self,
        directory: Path,
        variables: Mapping[str, str],
        replacements: Mapping[str, str],
        *,
        seconds: float = COMMAND_SECONDS,
    ) -> None:
        self._directory = directory
        self._seconds = seconds
        self._state = Path(tempfile.mkdtemp(dir=directory.parent)) / "variables"
        self._state.touch()
        self._replacements = replacements
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LODGE_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**kept, "HOME": str(directory), "PATH": path, **variables}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, page: Path) -> int:
        """Run all blocks of a page.

        Returns:
            The number of blocks that ran.

        Raises:
            CommandError: If a command fails, or its output is not the expected one.
        """
        output, count = "", 0
        for block in blocks(page):
            text = self._replace(block.text)
            if block.language == "text":
                self._compare(block, text, output)
            elif block.language == "yaml":
                self._write(text)
            elif block.language in ("bash", "python"):
                count += 1
                output = self._execute(block, text)
        return count

    def _replace(self, text: str) -> str:
        for old, new in self._replacements.items():
            text = text.replace(old, new)
        return text

    def _write(self, text: str) -> None:
        named = _FILE_NAME.match(text)
        if named is not None:
            path = self._directory / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def _execute(self, block: Block, text: str) -> str:
        if block.language == "python":
            script = f'source {self._state}\nexec "$0" -c "$1"'
            return self._finish(block, ["bash", "-c", script, sys.executable, text])
        if _SERVE.match(text):
            return self._serve(block, text)
        script = f"set -euo pipefail\nsource {self._state}\n{text}\nexport -p > {self._state}\n"
        return self._finish(block, ["bash", "-c", script])

    def _finish(self, block: Block, command: Sequence[str]) -> str:
        process = subprocess.Popen(
            command, cwd=self._directory, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        if _BACKGROUND.search(block.text):
            self._stack.callback(_end_group, process.pid)
        try:
            output, errors = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            _end_group(process.pid)
            output, errors = process.communicate()
            raise CommandError(
                f"{block} did not end in {self._seconds:g} s:\n{block.text}\n{output}\n{errors}"
            ) from None
        if process.returncode != 0:
            raise CommandError(f"{block} failed with {process.returncode}:\n{block.text}\n{output}\n{errors}")
        return output + errors

    def _serve(self, block: Block, text: str) -> str:
        log = self._directory.parent / f"{self._directory.name}-serve.log"
        script = f"set -euo pipefail\nsource {self._state}\nexec {text}"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*DIES_WITH_PARENT, "bash", "-c", script], cwd=self._directory, env=self._environment,
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._stack.callback(_end, process)
        deadline = time.monotonic() + START_SECONDS
        while not _READY.search(log.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise CommandError(f"{block} did not start:\n{block.text}\n{log.read_text()}")
            time.sleep(0.05)
        return log.read_text()

    @staticmethod
    def _compare(block: Block, expected: str, output: str) -> None:
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
        if not re.search(pattern, output, re.DOTALL):
            raise CommandError(f"{block} expects:\n{expected}\nThe output is:\n{output}")


def _end_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(START_SECONDS)
