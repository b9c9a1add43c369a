"""Values that outlive the process that wrote them."""

import multiprocessing
import os
from typing import Any

from lodge.kept_values import KeptValue


def in_another_process(function: Any, *arguments: Any) -> None:
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0


def test_value_of_another_process_is_read_and_replaced() -> None:
    kept = KeptValue()
    assert kept.read() is None
    for value in ({"a": b"1"}, "x" * 1_000_000, None, 3):
        in_another_process(kept.write, value)
        assert kept.read() == value
    kept.write("own")
    in_another_process(kept.write, "last")
    assert kept.read() == "last"


def write_the_half(kept: KeptValue, value: Any) -> None:
    written = os.pwrite
    os.pwrite = lambda file, content, offset: written(file, content[: len(content) // 2], offset)
    kept.write(value)


def test_process_that_dies_during_a_write_leaves_the_former_value() -> None:
    kept = KeptValue()
    for number in range(3):
        kept.write(number)
        in_another_process(write_the_half, kept, "lost")
        assert kept.read() == number
