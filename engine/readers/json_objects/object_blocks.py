"""Blocks of objects: lines as they are, or the objects of an array or of a sequence, each made a line.

Guarantees:

1. Together the blocks have all objects of the file, or of its range, in order; only lines have ranges.
2. Memory is bounded by a block and the longest object allowed.
3. What stands between objects and is not JSON is a FormatError.
"""

import codecs
import json
from typing import Protocol

from engine.context import ErrorContext
from engine.readers.byte_arrays import codes_of
from engine.readers.errors import FormatError, RowTooLongError
from engine.readers.json_objects.options import JsonOptions, Layout
from engine.readers.json_objects.positions import ObjectPositions, RowPositions
from engine.readers.json_objects.values import skip_white_space, too_deep
from engine.readers.lines import BLOCK_BYTES, Block, LineBlocks
from engine.readers.stream import TextStream
from engine.scan.reader import SourceFile

_PEEK_BYTES = 64 * 1024
_WHITE_SPACE = b" \t\r\n"
_NEAR_END = 16
_TOO_LONG = "look for a bracket that is never closed, or raise the option"


class ObjectBlocks(Protocol):
    """The objects of a file."""

    @property
    def place(self) -> RowPositions: ...

    def next(self) -> Block | None: ...

    def close(self) -> None: ...


def open_objects(file: SourceFile, options: JsonOptions, block_bytes: int = BLOCK_BYTES) -> ObjectBlocks:
    """Raises: FileError."""
    layout = detect_layout(file, options)
    if layout is Layout.LINES:
        return LineBlocks(file, max_line_bytes=options.max_line_bytes, block_bytes=block_bytes)
    return ObjectSequence(file, options, is_array=layout is Layout.ARRAY, block_bytes=block_bytes)


def detect_layout(file: SourceFile, options: JsonOptions) -> Layout:
    """How the objects of a file stand in it; a range is always of lines.

    Raises: FileError.
    """
    if options.layout is not Layout.AUTO:
        return options.layout
    if file.start:
        return Layout.LINES
    stream = TextStream(file)
    try:
        stream.skip_byte_order_mark()
        start = stream.read(_PEEK_BYTES)
        return _layout_by(start.lstrip(_WHITE_SPACE).decode(errors="replace"), is_all=len(start) < _PEEK_BYTES)
    finally:
        stream.close()


def _layout_by(start: str, *, is_all: bool) -> Layout:
    """What the start of a file, or all of it, looks like."""
    if start.startswith("["):
        return Layout.ARRAY
    position = 0
    try:
        while position < len(start):
            _, end = _SCANNER.raw_decode(start, position)
            if "\n" in start[position:end]:
                return Layout.CONCATENATED
            position = skip_white_space(start, end)
    except json.JSONDecodeError as error:
        # What is cut off by the end of what was read may go on; what is wrong by itself is a line to complain about.
        may_go_on = not is_all and _is_cut(start, error) and "\n" in start[position:]
        return Layout.CONCATENATED if may_go_on else Layout.LINES
    except RecursionError:
        return Layout.LINES
    return Layout.LINES


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the text may only be too short."""
    return error.pos >= len(text) - _NEAR_END or error.msg.startswith("Unterminated string")


_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class ObjectSequence:
    """The objects of an array, or objects that follow each other with any white space. Raises FileError throughout."""

    def __init__(
        self, file: SourceFile, options: JsonOptions, *, is_array: bool, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self.place: RowPositions = ObjectPositions(file)
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
        self._stream = TextStream(file)
        try:
            self._stream.skip_byte_order_mark()
        except BaseException:
            self._stream.close()
            raise

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
        return Block.of(codes_of(("\n".join(found) + "\n").encode()), first)

    def _next_object(self) -> str | None:
        """The next object as a line; None at the end."""
        if self._is_array and not self._open_array():
            return None
        if not self._go_to_text():
            if self._is_array:
                raise FormatError(self._here, "the file ends inside the array")
            return None
        end = self._object_end()
        line = self._text[self._position : end].replace("\n", " ").replace("\r", " ")
        if not line.startswith("{"):
            raise FormatError(self._here, f"a row must be an object, and {line[:40]!r} is none")
        self._position = end
        return line

    @property
    def _here(self) -> ErrorContext:
        return self.place.at(self._number)

    def _open_array(self) -> bool:
        """Goes over what stands before the next object of an array. Returns: Whether there is one."""
        if self._is_closed:
            return False
        expected = "," if self._is_open and self._number > 1 else "" if self._is_open else "["
        if not self._go_to_text():
            if not self._is_open:
                return False
            raise FormatError(self._here, "the file ends inside the array")
        if self._is_open and self._text[self._position] == "]":
            self._position += 1
            self._is_closed = True
            if self._go_to_text():
                raise FormatError(self._here, "something follows after the array")
            return False
        if expected and self._text[self._position] != expected:
            raise FormatError(self._here, f"{expected!r} is missing before it")
        self._position += len(expected)
        if not self._is_open:
            self._is_open = True
            return self._open_array()
        return True

    def _go_to_text(self) -> bool:
        """Goes over white space. Returns: Whether anything is left."""
        while True:
            self._position = skip_white_space(self._text, self._position)
            if self._position < len(self._text):
                return True
            if not self._read():
                return False

    def _object_end(self) -> int:
        """Where the value ends that begins at the position, which may move as text is read."""
        while True:
            try:
                end = int(_SCANNER.raw_decode(self._text, self._position)[1])
                if end - self._position > self._max_bytes:
                    raise RowTooLongError(self._here, self._max_bytes, _TOO_LONG)
                return end
            except json.JSONDecodeError as error:
                is_cut, problem = _is_cut(self._text, error), f"this is no JSON: {error.msg}"
                problem += f" at character {error.pos - self._position + 1} of it"
            except RecursionError:
                raise too_deep(self._here) from None
            if len(self._text) - self._position > self._max_bytes:
                raise RowTooLongError(self._here, self._max_bytes, _TOO_LONG)
            if not is_cut or not self._read():
                raise FormatError(self._here, problem)

    def _read(self) -> bool:
        """More text; what lies before the position is forgotten. Returns: Whether there was more."""
        if self._is_at_end:
            return False
        data = self._stream.read(max(self._block_bytes, len(self._text) - self._position))
        self._is_at_end = not data
        try:
            more = self._decoder.decode(data, final=self._is_at_end)
        except UnicodeDecodeError:
            raise FormatError(self._here, "the bytes are not UTF-8; convert the file to UTF-8") from None
        self._text = self._text[self._position :] + more
        self._position = 0
        return not self._is_at_end
