"""The objects of a block of lines, by Python's parser, with the policy for lines that have none."""

import logging
from collections.abc import Iterator
from typing import Any

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError
from engine.readers.errors import FormatError
from engine.readers.json_objects.positions import RowPositions
from engine.readers.json_objects.values import Row, text_of, values_in
from engine.readers.lines import Block
from engine.readers.malformed_policy import MalformedPolicy

_log = logging.getLogger(__name__)


class LineParser:
    """Parses the lines of one file, and counts what it left out.

    Args:
        place: Of the lines.
        malformed: What becomes of a line without object.
    """

    def __init__(self, place: RowPositions, malformed: MalformedPolicy) -> None:
        self._place = place
        self._malformed = malformed
        self._left_out = 0

    def rows(self, block: Block) -> Iterator[Row]:
        """Each object with its number.

        Raises:
            FormatError: A line is no JSON, or no object.
            DuplicateColumnError: An object has two members of one name.
        """
        for number, line in enumerate(block.data.split(b"\n"), block.line):
            if not line.strip():
                continue
            try:
                objects = _objects_in(line, self._place, number)
            except (FormatError, DuplicateColumnError):
                if self._malformed is MalformedPolicy.FAIL:
                    raise
                self._left_out += 1
                objects = [{}] if self._malformed is MalformedPolicy.NULL else []
            for one in objects:
                yield one, number

    def warn(self, context: ErrorContext) -> None:
        """Says in the log what was left out of the file, if anything was."""
        if self._left_out:
            what = "rows of null" if self._malformed is MalformedPolicy.NULL else "left out"
            _log.warning("%s%d malformed lines are %s, as the options say.", context, self._left_out, what)


def _objects_in(line: bytes, place: RowPositions, number: int) -> list[dict[str, Any]]:
    context = place.at(number)
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise FormatError(context, "the bytes are not UTF-8; convert the file to UTF-8") from None
    values = list(values_in(text, context))
    for value in values:
        if not isinstance(value, dict):
            raise _no_object(context, text_of(value) if value is not None else "null")
    return values


def _no_object(context: ErrorContext, text: str) -> FormatError:
    return FormatError(context, f"a row must be an object, and {text[:40]!r} is none")
