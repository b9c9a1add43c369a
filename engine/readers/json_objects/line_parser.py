"""Parsing of lines with Python's JSON parser, with the policy for malformed lines."""

import logging
from collections.abc import Iterator
from typing import Any

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError
from engine.readers.json_objects.positions import RowPositions
from engine.readers.json_objects.values import Row, not_an_object, not_utf_8, parse_values, text_of
from engine.readers.lines import Block
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.reader_errors import FormatError

_log = logging.getLogger(__name__)


class LineParser:
    """Parses the lines of a file, and counts the malformed lines.

    Args:
        positions: The positions of the lines.
        malformed: The treatment of a line that is not a JSON object.
    """

    def __init__(self, positions: RowPositions, malformed: MalformedPolicy) -> None:
        self._positions = positions
        self._malformed = malformed
        self._malformed_lines = 0

    def rows(self, block: Block) -> Iterator[Row]:
        """Yield each object together with its row number.

        Raises:
            FormatError: If a line is not valid JSON, or is not an object.
            DuplicateColumnError: If an object has two members with the same name.
        """
        for number, line in enumerate(block.to_bytes().split(b"\n"), block.line):
            if not line.strip():
                continue
            try:
                objects = _parse_line(line, self._positions.at(number))
            except (FormatError, DuplicateColumnError):
                if self._malformed is MalformedPolicy.FAIL:
                    raise
                self._malformed_lines += 1
                objects = [{}] if self._malformed is MalformedPolicy.NULL else []
            for one in objects:
                yield one, number

    def log_warnings(self, context: ErrorContext) -> None:
        """Log how many lines the policy changed, if any."""
        if self._malformed_lines:
            outcome = "became rows of nulls" if self._malformed is MalformedPolicy.NULL else "were skipped"
            _log.warning(
                "%s%d malformed lines %s because of the option 'malformed'.", context, self._malformed_lines, outcome
            )


def _parse_line(line: bytes, context: ErrorContext) -> list[dict[str, Any]]:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise not_utf_8(context) from None
    values = list(parse_values(text, context))
    for value in values:
        if not isinstance(value, dict):
            raise not_an_object(context, text_of(value))
    return values
