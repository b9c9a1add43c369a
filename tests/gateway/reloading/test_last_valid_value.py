"""Values that are read again (guarantees: gateway.reloading.last_valid_value)."""

import math
from collections.abc import Sequence

import pytest

from gateway.reloading.last_valid_value import LastValidValue, SourceError, unchanged
from gateway.reloading.source_memory import KeptSource, SourceMemory
from tests.gateway.reloading.memory import Memory


class Number:
    """A source that contains a number. It is missing if it is empty."""

    def __init__(self, content: str, kept: Memory | None = None) -> None:
        self.content = content
        self.parsed: list[bytes] = []
        self.memory = SourceMemory(kept)
        self.reports: list[tuple[str, int]] = []

    def open(self, name: str = "number", repeat_seconds: float = math.inf) -> LastValidValue[bytes, int]:
        return LastValidValue(name, self.read, self.parse, self.report, self.memory, repeat_seconds=repeat_seconds)

    def read(self) -> bytes:
        if not self.content:
            raise SourceError("gone")
        return self.content.encode()

    def parse(self, content: bytes) -> int:
        self.parsed.append(content)
        try:
            return int(content)
        except ValueError:
            raise SourceError("not a number") from None

    def report(self, reason: str, value: int) -> None:
        self.reports.append((reason, value))

    def reload(self, opened: LastValidValue[bytes, int], contents: Sequence[str]) -> Sequence[tuple[bool, int, str]]:
        found = []
        for self.content in contents:
            found.append((opened.reload(), opened.current.value, opened.problem))
        return found


@pytest.mark.parametrize("content", ["", "x"])
def test_first_content_that_is_not_valid_is_refused(content: str) -> None:
    number = Number(content)
    with pytest.raises(SourceError):
        number.open()
    assert not number.reports


def test_guarantee_1_previous_value_stays_and_each_new_reason_is_reported_once() -> None:
    number = Number("1")
    found = number.reload(number.open(), ["1", "", "", "x", "1", "x", "2"])
    assert found == [
        (False, 1, ""),
        (False, 1, "gone"),
        (False, 1, "gone"),
        (False, 1, "not a number"),
        (False, 1, ""),
        (False, 1, "not a number"),
        (True, 2, ""),
    ]
    assert number.reports == [("gone", 1), ("not a number", 1), ("not a number", 1)]


def test_guarantee_1_failure_is_reported_again_after_a_time() -> None:
    number = Number("1")
    number.reload(number.open(repeat_seconds=0), ["", ""])
    assert number.reports == [("gone", 1)] * 2


def test_content_that_was_only_read_is_not_used() -> None:
    number = Number("1")
    opened = number.open()
    number.content = "2"
    reading = opened.read()
    assert (opened.current.value, reading.value) == (1, 2)
    assert opened.use(reading)
    assert opened.current is reading
    assert not opened.use(opened.read())


def test_value_of_unchanged_content_is_the_same_object() -> None:
    opened = LastValidValue("list", lambda: [1], unchanged, lambda reason, value: None)
    value = opened.current.value
    assert not opened.reload()
    assert opened.current.value is value


def test_guarantee_2_gateway_continues_with_what_the_former_one_used() -> None:
    kept = Memory()
    Number("1", kept).open()
    for content, reason in (("", "gone"), ("x", "not a number"), ("", "gone")):
        number = Number(content, kept)
        opened = number.open()
        assert (opened.current.value, opened.problem, number.reports) == (1, reason, [(reason, 1)])
        opened.reload()
        assert number.reports == [(reason, 1)]
    number = Number("2", kept)
    assert number.open().current.value == 2
    number.reload(number.open(), ["3", "x"])
    assert Number("", kept).open().current.value == 3
    with pytest.raises(SourceError, match="gone"):
        Number("", kept).open("another number")


def test_guarantee_2_gateway_in_use_does_not_return_to_what_the_former_one_used() -> None:
    kept = Memory()
    kept.write({"number": KeptSource(b"1", 0.0)})
    number = Number("", kept)
    number.memory.forget_former_gateway()
    with pytest.raises(SourceError, match="gone"):
        number.open()


def test_guarantee_3_refused_content_is_parsed_once() -> None:
    number = Number("1")
    number.reload(number.open(), ["x", "x", "", "x", "1", "x", "2"])
    assert number.parsed == [b"1", b"x", b"x", b"2"]
