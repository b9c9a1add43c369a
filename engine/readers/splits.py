"""Splits of a file into ranges of bytes."""

from dataclasses import replace

from engine.scan.reader import SourceFile


def split_by_bytes(file: SourceFile, target_bytes: int) -> list[SourceFile]:
    """Split a file into ranges of nearly equal length.

    The length of each range is between two thirds and one and a half times ``target_bytes``. Therefore a file that is
    only slightly larger than the target remains a single task.
    """
    count = max((2 * file.size_bytes + target_bytes) // (2 * max(target_bytes, 1)), 1)
    starts = [file.size_bytes * number // count for number in range(count)]
    return [replace(file, start=start, end=end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
