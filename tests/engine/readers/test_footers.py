"""Footers of columnar files whose numbers are false."""

import pytest

from engine.readers.columnar.orc_tail import read_varint
from engine.readers.columnar.parquet_codecs import read_codecs

BEFORE_PATH = b"\x1c\x15\x00\x19\x15\x00\x19\x18"
"""The bytes of a column chunk up to the path of its column, which has one name."""


def test_codecs_are_found():
    assert list(read_codecs(BEFORE_PATH + b"\x01a\x15\x02\x16")) == [(b"a", 1)]


@pytest.mark.timeout(60)
def test_endless_number_is_skipped_in_linear_time():
    """In quadratic time, this would take hours."""
    assert list(read_codecs(BEFORE_PATH + b"\xff" * 20_000_000 + b"\x00")) == []


def test_numbers_have_at_most_64_bits():
    largest = b"\xff" * 9 + b"\x01"
    assert read_varint(largest, 0) == (2**64 - 1, 10)
    with pytest.raises(IndexError):
        read_varint(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)
