"""Splits of files by bytes."""

from dataclasses import replace

from engine.scan.reader import SourceFile


def split_by_bytes(file: SourceFile, target_bytes: int) -> list[SourceFile]:
    """Split a file into ranges of nearly equal length.

    Each range has between two thirds and one and a half of ``target_bytes``, so a file that is a little larger than
    the target does not become two tasks.
    """
    count = max((2 * file.size_bytes + target_bytes) // (2 * max(target_bytes, 1)), 1)
    starts = [file.size_bytes * number // count for number in range(count)]
    return [replace(file, start=start, end=end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
