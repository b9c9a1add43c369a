"""Cutting a file into ranges that are read apart."""

from collections.abc import Iterator, Sequence


def byte_ranges(size_bytes: int, target_bytes: int) -> list[tuple[int, int | None]]:
    """Ranges of nearly equal length, between two thirds and one and a half of ``target_bytes``; the last one is open.

    So a file that is a little larger than the target does not become two tasks.
    """
    count = max((2 * size_bytes + target_bytes) // (2 * max(target_bytes, 1)), 1)
    starts = [size_bytes * number // count for number in range(count)]
    return list(zip(starts, [*starts[1:], None], strict=True))


def packed_ranges(sizes_bytes: Sequence[int], target_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours, each as long as its sizes stay within ``target_bytes``, and at least one."""
    start, total = 0, 0
    for index, size_bytes in enumerate(sizes_bytes):
        if index > start and total + size_bytes > target_bytes:
            yield start, index
            start, total = index, 0
        total += size_bytes
    if start < len(sizes_bytes):
        yield start, len(sizes_bytes)
