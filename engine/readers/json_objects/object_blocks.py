"""Blocks of JSON objects, with one object on each line.

The objects of an array, and concatenated objects, are rewritten as lines. Therefore the same parser is used for all
layouts.

Guarantees:

1. All blocks together contain all objects of the file, or of its range, in order. Only files with the layout ``lines``
   have ranges.
2. Memory use is bounded by the block size and the maximum length of an object.
3. Text between objects that is not JSON raises a FormatError.
"""

import codecs
import json
from typing import Protocol

from engine.context import ErrorContext
from engine.readers.byte_arrays import as_byte_array
from engine.readers.json_objects.json_options import JsonOptions, Layout
from engine.readers.json_objects.layout import SCANNER, is_truncated, peek_layout
from engine.readers.json_objects.positions import ObjectPositions, RowPositions
from engine.readers.json_objects.values import not_an_object, not_utf_8, skip_white_space, too_deep
from engine.readers.lines import BLOCK_BYTES, Block, LineBlocks
from engine.readers.reader_errors import FormatError, RowTooLongError
from engine.readers.text_stream import TextStream
from engine.scan.reader import SourceFile

_TOO_LONG = "check for a bracket that is never closed, or increase the option"


class ObjectBlocks(Protocol):
    """Reads the objects of a file in blocks."""

    @property
    def positions(self) -> RowPositions: ...

    def next(self) -> Block | None:
        """Return the next objects. Return None at the end.

        Raises:
            FileError: If the file cannot be read.
        """
        ...

    def close(self) -> None: ...


def open_objects(file: SourceFile, options: JsonOptions, block_bytes: int = BLOCK_BYTES) -> ObjectBlocks:
    """Open a file, and detect its layout if necessary.

    Raises:
        FileError: If the file cannot be read.
    """
    stream = TextStream(file, options.encoding)
    try:
        layout = peek_layout(file, options, stream)
        if layout is Layout.LINES:
            return LineBlocks(file, max_line_bytes=options.max_line_bytes, block_bytes=block_bytes, stream=stream)
        return ObjectSequence(file, stream, options, is_array=layout is Layout.ARRAY, block_bytes=block_bytes)
    except BaseException:
        stream.close()
        raise


class ObjectSequence:
    """Reads the objects of an array, or objects that are separated only by white space.

    All methods raise FileError if the file cannot be read. :meth:`close` closes the stream.
    """

    def __init__(
        self,
        file: SourceFile,
        stream: TextStream,
        options: JsonOptions,
        *,
        is_array: bool,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.positions: RowPositions = ObjectPositions(file)
        self._max_bytes = options.max_line_bytes
        self._block_bytes = block_bytes
        self._is_array = is_array
        self._is_open = False
        self._is_closed = False
        self._is_at_end = False
        self._number = 1
        self._text = ""
        self._position = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._stream = stream
        stream.skip_byte_order_mark()

    def close(self) -> None:
        self._stream.close()

    def next(self) -> Block | None:
        first, length, found = self._number, 0, []
        while length < self._block_bytes and (one := self._next_object()) is not None:
            found.append(one)
            length += len(one) + 1
            self._number += 1
        if not found:
            return None
        return Block.of(as_byte_array(("\n".join(found) + "\n").encode()), first)

    def _next_object(self) -> str | None:
        """Return the next object as a single line. Return None at the end."""
        if self._is_array and not self._skip_to_element():
            return None
        if not self._skip_white_space():
            if self._is_array:
                raise FormatError(self._context, "the file ends inside the array")
            return None
        end = self._find_object_end()
        line = self._text[self._position : end].replace("\n", " ").replace("\r", " ")
        if not line.startswith("{"):
            raise not_an_object(self._context, line)
        self._position = end
        return line

    @property
    def _context(self) -> ErrorContext:
        return self.positions.at(self._number)

    def _skip_to_element(self) -> bool:
        """Skip the text before the next array element. Return whether there is an element."""
        if self._is_closed:
            return False
        expected = "," if self._is_open and self._number > 1 else "" if self._is_open else "["
        if not self._skip_white_space():
            if not self._is_open:
                return False
            raise FormatError(self._context, "the file ends inside the array")
        if self._is_open and self._text[self._position] == "]":
            self._position += 1
            self._is_closed = True
            if self._skip_white_space():
                raise FormatError(self._context, "there is text after the array")
            return False
        if expected and self._text[self._position] != expected:
            raise FormatError(self._context, f"{expected!r} is missing before this object")
        self._position += len(expected)
        if not self._is_open:
            self._is_open = True
            return self._skip_to_element()
        return True

    def _skip_white_space(self) -> bool:
        """Skip white space, and return whether there is more text."""
        while True:
            self._position = skip_white_space(self._text, self._position)
            if self._position < len(self._text):
                return True
            if not self._read_more():
                return False

    def _find_object_end(self) -> int:
        """Return the end of the value that begins at the current position.

        The current position may change if more text is read.
        """
        while True:
            try:
                end = int(SCANNER.raw_decode(self._text, self._position)[1])
                if end - self._position > self._max_bytes:
                    raise RowTooLongError(self._context, self._max_bytes, _TOO_LONG)
                return end
            except json.JSONDecodeError as error:
                may_continue, problem = is_truncated(self._text, error), f"this is not JSON: {error.msg}"
                problem += f" at character {error.pos - self._position + 1} of the object"
            except RecursionError:
                raise too_deep(self._context) from None
            if len(self._text) - self._position > self._max_bytes:
                raise RowTooLongError(self._context, self._max_bytes, _TOO_LONG)
            if not may_continue or not self._read_more():
                raise FormatError(self._context, problem)

    def _read_more(self) -> bool:
        """Read more text, and discard the text before the current position.

        Returns:
            Whether more text was read.
        """
        if self._is_at_end:
            return False
        data = self._stream.read(max(self._block_bytes, len(self._text) - self._position))
        self._is_at_end = not data
        try:
            more = self._decoder.decode(data, final=self._is_at_end)
        except UnicodeDecodeError:
            raise not_utf_8(self._context) from None
        self._text = self._text[self._position :] + more
        self._position = 0
        return not self._is_at_end
