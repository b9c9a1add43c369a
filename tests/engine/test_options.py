"""Options as dataclasses, which Spark passes as text."""

from dataclasses import dataclass
from enum import Enum

import pytest

from engine.errors import ScanOptionError
from engine.options import Boolean, ByteCount, Choice, Integer, Text, is_options, option, parse_options


class Color(Enum):
    RED = "red"
    DARK_RED = "dark_red"
    BLUE = "blue"


def to_single(text: str) -> str:
    if len(text) != 1:
        raise ValueError("must be one character")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    name: str = option(Text(), description="Required.")
    mark: str | None = option(Text(to_single), default=None, description="One character.")
    other: str | None = option(Text(to_single), default=None, description="Another character.")
    flag: bool = option(Boolean(), default=False, description="On or off.")
    number: int = option(Integer(at_least=-5, at_most=1000), default=1, description="From -5 to 1000.")
    count: int = option(Integer(), default=1, description="Any integer.")
    size: int = option(ByteCount(at_least=10), default=1, description="At least 10 bytes.")
    color: Color = option(Choice.of(Color), default=Color.BLUE, description="A color.")

    def __post_init__(self):
        if self.mark is not None and self.mark == self.other:
            raise ValueError("mark and other must differ")


def parse(**options: str) -> Options:
    return parse_options(Options, {"name": "n", **options})


def test_defaults_are_neither_converted_nor_checked():  # 2
    assert parse() == Options(name="n", size=1)


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("name", " any text ", " any text "),
        ("mark", "#", "#"),
        ("flag", "true", True),
        ("flag", "TRUE", True),
        ("flag", "1", True),
        ("flag", "off", False),
        ("flag", "No", False),
        ("number", "-5", -5),
        ("number", " +1000 ", 1000),
        ("number", "7.0", 7),
        ("count", "1" * 40, int("1" * 40)),
        ("size", "10", 10),
        ("size", "64000b", 64000),
        ("size", "1.5 kB", 1500),
        ("size", "100KiB", 102400),
        ("size", "32MiB", 32 << 20),
        ("size", "2G", 2_000_000_000),
        ("size", "9007199254740993", 9007199254740993),
        ("color", "dark_red", Color.DARK_RED),
    ],
)
def test_text_is_converted(option, text, value):
    assert getattr(parse(**{option: text}), option) == value


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("mark", "##", "must be one character"),
        ("flag", "", "must be true or false"),
        ("flag", "maybe", "must be true or false"),
        ("number", "", "must be an integer"),
        ("number", "1.5", "must be an integer"),
        ("number", "1_000", "must be an integer"),
        ("number", "1e3", "must be an integer"),
        ("number", "\u0661", "must be an integer"),
        ("number", "-6", "must be at least -5 and at most 1000"),
        ("number", "1001", "must be at least -5 and at most 1000"),
        ("number", "9" * 5000, "must be an integer"),
        ("size", "9", "must be at least 10"),
        ("size", "9" * 5000, "must be a number of bytes, such as 1048576 or 32MiB"),
        ("size", "-10", "must be a number of bytes, such as 1048576 or 32MiB"),
        ("size", "10 XB", "must be a number of bytes, such as 1048576 or 32MiB"),
        ("size", "10ib", "must be a number of bytes, such as 1048576 or 32MiB"),
        ("color", "RED", "must be 'red', 'dark_red' or 'blue'"),
        ("color", "", "must be 'red', 'dark_red' or 'blue'"),
    ],
)
def test_invalid_value_is_rejected(option, text, problem):  # 1
    with pytest.raises(ScanOptionError) as raised:
        parse(**{option: text})
    assert raised.value.option == option
    assert str(raised.value).startswith(f"Option {option!r} of a scan cannot be '{text[:50]}")
    assert str(raised.value).endswith(f": {problem}.")


def test_unknown_option_lists_the_known_options():  # 1
    with pytest.raises(ScanOptionError, match="'weight' of a scan is unknown; the options are color, count, flag,"):
        parse(weight="1")


def test_missing_option_is_rejected():  # 1
    with pytest.raises(ScanOptionError, match="Option 'name' of a scan is missing"):
        parse_options(Options, {})


def test_options_are_checked_together():
    with pytest.raises(
        ScanOptionError, match=r"Option 'options' of a scan cannot be .*'mark': '#'.*mark and other must"
    ):
        parse(mark="#", other="#")


def test_only_classes_of_options_are_recognized():
    @dataclass
    class Plain:
        a: int = 1

    assert is_options(Options)
    assert not is_options(Plain)
    assert not is_options(dict)
    assert not is_options(Options(name="n"))
