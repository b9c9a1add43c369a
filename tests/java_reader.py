"""A Java program that reads what Lodge reads, with Spark's own classes, and prints what it found."""

import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"
_FLUSH = struct.pack(">i", -1)


class JavaReader:
    """A process that runs a Java source file.

    The program reads messages from its standard input, each as parts with their lengths in four bytes. It prints the
    same number of lines for each message, and flushes them at the length -1.

    Args:
        source: The source file.
        class_path: The classes that it uses.
        heap_mib: The maximum size of its heap.
        lines: The number of lines for each message.
    """

    def __init__(self, source: Path, class_path: str, *, heap_mib: int = 256, lines: int = 1) -> None:
        self._command = ["java", f"-Xmx{heap_mib}m", "-XX:TieredStopAtLevel=1", "-cp", class_path, str(source)]
        self._lines = lines

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, messages: Sequence[Sequence[bytes]]) -> list[list[str]]:
        """Return the lines that the program prints for each message."""
        writer = threading.Thread(target=self._write, args=(messages,))
        writer.start()
        answers = [[self._process.stdout.readline().decode() for _ in range(self._lines)] for _ in messages]
        writer.join()
        assert all(line.endswith("\n") for answer in answers for line in answer), "the Java process has ended"
        return [[line.strip() for line in answer] for answer in answers]

    def _write(self, messages: Sequence[Sequence[bytes]]) -> None:
        for message in messages:
            self._process.stdin.write(b"".join(struct.pack(">i", len(part)) + part for part in message))
        self._process.stdin.write(_FLUSH)
        self._process.stdin.flush()
