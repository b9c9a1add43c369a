"""Blocks of whole lines, with their place in the file: what the readers of text work on.

Guarantees:

1. All blocks together are the file, or the range of it, less a byte order mark at its start.
2. Each block ends with a line feed, but for the last one of a file that does not.
3. A line longer than the limit is a RowTooLongError. Memory is bounded by block and limit, not by the file.
4. A range has the lines that begin in it: ranges that together are the file have, together, each line once.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.context import ErrorContext
from engine.readers.byte_arrays import LINE_FEED, Codes, count, find, find_last, has_zero, is_ascii, new_codes
from engine.readers.errors import FormatError, RowTooLongError
from engine.readers.stream import UTF_8, ByteStream, TextStream
from engine.scan.reader import SourceFile

BLOCK_BYTES = 2 * 1024 * 1024
DEFAULT_MAX_LINE_BYTES = 16 * 1024 * 1024

_LOOK_BYTES = 64 * 1024

_TOO_LONG = "look for missing line ends or a quote that is never closed, or raise the option"


@dataclass(frozen=True, slots=True)
class LinePositions:
    """Makes the position of a message out of the number of a line.

    Attributes:
        file: What is read, and the range of it in which lines are numbered from 1.
        lines_before: The lines before the range; None if they are to be counted when a message needs it.
    """

    file: SourceFile
    lines_before: int | None = 0

    def at(self, line: int) -> ErrorContext:
        """The context of one line."""
        before = self._count() if self.lines_before is None else self.lines_before
        return self.file.context.at(f"line {line + before}")

    def near(self, line: int, last: int) -> ErrorContext:
        """The context of all lines from one to another, without a look at the file."""
        if self.lines_before is None:
            return self.file.context.at(f"lines {line} to {last} after byte {self.file.start}")
        if line >= last:
            return self.at(line)
        return self.file.context.at(f"lines {line + self.lines_before} to {last + self.lines_before}")

    def error(self, line: int, problem: str) -> FormatError:
        return FormatError(self.at(line), problem)

    def too_long(self, line: int, limit_bytes: int) -> RowTooLongError:
        return RowTooLongError(self.at(line), limit_bytes, _TOO_LONG)

    def _count(self) -> int:
        """Of the lines that begin before the range."""
        lines, left, last = 0, self.file.start, b"\n"
        with ByteStream(self.file) as stream:
            while left > 0 and (data := stream.read(min(left, BLOCK_BYTES))):
                lines += data.count(b"\n")
                left -= len(data)
                last = data[-1:]
        return lines + (last != b"\n")


@dataclass(frozen=True, slots=True)
class Block:
    """Lines.

    Attributes:
        codes: Their bytes: UTF-8, if the file is what it should be.
        line: The number of the first line, see :class:`LinePositions`.
        line_feeds: How many there are; :meth:`of` counts them.
    """

    codes: Codes
    line: int
    line_feeds: int

    @classmethod
    def of(cls, codes: Codes, line: int) -> Self:
        return cls(codes, line, count(codes, LINE_FEED))

    @property
    def data(self) -> bytes:
        """A copy."""
        return self.codes.tobytes()

    @property
    def last_line(self) -> int:
        ends_line = len(self.codes) > 0 and self.codes[-1] == LINE_FEED
        return self.line + self.line_feeds - int(ends_line)

    def line_at(self, offset: int) -> int:
        """The line of the byte at an offset."""
        return self.line + count(self.codes[:offset], LINE_FEED)

    def after(self, offset: int) -> "Block":
        """What comes after the first bytes."""
        before = count(self.codes[:offset], LINE_FEED)
        return Block(self.codes[offset:], self.line + before, self.line_feeds - before)

    def until(self, offset: int) -> "Block":
        """The first bytes."""
        return self if offset == len(self.codes) else Block.of(self.codes[:offset], self.line)

    def halves(self) -> "tuple[Block, Block]":
        """Two parts of whole lines, neither empty. The block must have two lines."""
        middle = find(self.codes, LINE_FEED, len(self.codes) // 2) + 1
        if middle in (0, len(self.codes)):
            middle = find_last(self.codes[: len(self.codes) // 2], LINE_FEED) + 1
        return self.until(middle), self.after(middle)

    def joined(self, following: "Block") -> "Block":
        codes = np.concatenate((self.codes, following.codes))
        return Block(codes, self.line, self.line_feeds + following.line_feeds)

    def text(self, place: LinePositions) -> str:
        """Raises: FormatError, naming the first line that is not UTF-8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            problem = "the bytes are not UTF-8; name the encoding in an option, or convert the file"
            raise place.error(self.line_at(error.start), problem) from None

    def check_text(self, place: LinePositions) -> None:
        """Raises: As :meth:`text`; FormatError, naming the line, for a byte that is zero."""
        if has_zero(self.codes):
            problem = "it has a byte that is zero, which is no text: the file may be damaged, or in another encoding"
            raise place.error(self.line_at(find(self.codes, 0)), problem)
        if not is_ascii(self.codes):
            self.text(place)


class LineBlocks:
    """The lines of a file, or of its range.

    Args:
        file: Its range counts bytes of UTF-8.
        max_line_bytes: See guarantee 3.
        encoding: Of the file; what is read from it is UTF-8.
        lines_before: See :class:`LinePositions`; None unless the range is the whole file.
        block_bytes: What is read at once.

    Attributes:
        place: Of the lines.
        start_bytes: How long the byte order mark is that was left out.
    """

    def __init__(
        self,
        file: SourceFile,
        *,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        encoding: str = UTF_8,
        lines_before: int | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self.place = LinePositions(file, 0 if file.start == 0 else lines_before)
        self._end = file.end
        self._max_line_bytes = max_line_bytes
        self._block_bytes = min(block_bytes, max_line_bytes)
        self._begun: Codes = np.empty(0, np.uint8)
        self._line = 1
        self._is_done = False
        self.start_bytes = 0
        self._stream = TextStream(file, encoding)
        try:
            self._go_to(file.start)
        except BaseException:
            self._stream.close()
            raise

    def next(self) -> Block | None:
        """The next lines; None at the end."""
        while not self._is_done:
            start = self._stream.position - len(self._begun)
            codes = self._begun_and_more()
            if len(codes) == len(self._begun):
                self._is_done = True
                return self._block(codes, len(codes)) if len(codes) else None
            whole = find_last(codes, LINE_FEED) + 1
            if self._end is not None and start + len(codes) >= self._end:
                last = find(codes, LINE_FEED, max(self._end - 1 - start, 0)) + 1
                self._is_done = last > 0
                whole = last or whole
            if whole:
                return self._block(codes, whole)
            self._begun = codes
            self._check_length(len(codes))
        return None

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _go_to(self, start: int) -> None:
        """To the first line that begins at ``start`` or after it."""
        if start == 0:
            self._stream.skip_byte_order_mark()
            self.start_bytes = self._stream.position
            return
        self._stream.skip(start - 1)
        while data := self._stream.read(min(self._block_bytes, _LOOK_BYTES)):
            if end_of_line := data.find(b"\n") + 1:
                self._stream.give_back(data[end_of_line:])
                break
        self._is_done = self._end is not None and self._stream.position >= self._end

    def _begun_and_more(self) -> Codes:
        """The begun line and what follows it in the file, in memory of their own."""
        begun = len(self._begun)
        codes = new_codes(begun + self._block_bytes)
        codes[:begun] = self._begun
        return codes[: begun + self._stream.read_into(codes[begun:].data)]

    def _block(self, codes: Codes, whole: int) -> Block:
        first_bytes = find(codes[:whole], LINE_FEED)
        self._check_length(whole if first_bytes < 0 else first_bytes)
        block = Block.of(codes[:whole], self._line)
        self._line += block.line_feeds
        self._begun = codes[whole:]
        return block

    def _check_length(self, length_bytes: int) -> None:
        if length_bytes > self._max_line_bytes:
            raise self.place.too_long(self._line, self._max_line_bytes)
