"""Blocks of whole lines with their position in the file, for the readers of text formats.

Guarantees:

1. All blocks together contain the file, or the range of the file, without a byte order mark at the start.
2. Each block ends with a line feed. The only exception is the last block of a file that does not end with a line feed.
3. A line that exceeds the limit raises a RowTooLongError. Memory use depends only on the block size and this limit, not
   on the size of the file.
4. A range contains the lines that begin in the range. If several ranges together cover the file, each line is in
   exactly one of them.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from engine.context import ErrorContext
from engine.readers.byte_arrays import LINE_FEED, ByteArray, allocate, contains_zero, count, find, find_last, is_ascii
from engine.readers.reader_errors import FormatError, RowTooLongError
from engine.readers.text_stream import UTF_8, ByteStream, TextStream
from engine.scan.reader import SourceFile

BLOCK_BYTES = 2 * 1024 * 1024
DEFAULT_MAX_LINE_BYTES = 16 * 1024 * 1024

_SEARCH_BYTES = 64 * 1024

_TOO_LONG = "check for missing line ends or a quote that is never closed, or increase the option"


class LinePositions:
    """Positions of lines, for error messages.

    Args:
        file: The file and its range. Lines are numbered from 1 within the range.
        lines_before: The number of lines before the range. If None, these lines are counted when a message needs the
            number.
    """

    def __init__(self, file: SourceFile, lines_before: int | None = 0) -> None:
        self.file = file
        self._lines_before = lines_before

    def at(self, line: int) -> ErrorContext:
        """Return the context of one line."""
        if self._lines_before is None:
            self._lines_before = self._count_before()
        return self.file.context.at(f"line {line + self._lines_before}")

    def between(self, first: int, last: int) -> ErrorContext:
        """Return the context of several lines. This method does not read the file."""
        before = self._lines_before
        if before is None:
            return self.file.context.at(f"lines {first} to {last} after byte {self.file.start}")
        if first >= last:
            return self.at(first)
        return self.file.context.at(f"lines {first + before} to {last + before}")

    def error(self, line: int, problem: str) -> FormatError:
        return FormatError(self.at(line), problem)

    def too_long(self, line: int, limit_bytes: int) -> RowTooLongError:
        return RowTooLongError(self.at(line), limit_bytes, _TOO_LONG)

    def _count_before(self) -> int:
        """Count the lines that begin before the range."""
        lines, left, last = 0, self.file.start, b"\n"
        with ByteStream(self.file) as stream:
            while left > 0 and (data := stream.read(min(left, BLOCK_BYTES))):
                lines += data.count(b"\n")
                left -= len(data)
                last = data[-1:]
        return lines + (last != b"\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of lines of a file.

    Attributes:
        data: The bytes of the lines. They are UTF-8 if the file is valid.
        line: The number of the first line within the range. See :class:`LinePositions`.
        line_feeds: The number of line feeds. :meth:`of` counts the line feeds.
    """

    data: ByteArray
    line: int
    line_feeds: int

    @classmethod
    def of(cls, data: ByteArray, line: int) -> Self:
        return cls(data, line, count(data, LINE_FEED))

    def to_bytes(self) -> bytes:
        return self.data.tobytes()

    @property
    def last_line(self) -> int:
        ends_line = len(self.data) > 0 and self.data[-1] == LINE_FEED
        return self.line + self.line_feeds - int(ends_line)

    def line_at(self, offset: int) -> int:
        """Return the number of the line that contains the byte at ``offset``."""
        return self.line + count(self.data[:offset], LINE_FEED)

    def after(self, offset: int) -> "Block":
        """Return the block without its first ``offset`` bytes."""
        before = count(self.data[:offset], LINE_FEED)
        return Block(self.data[offset:], self.line + before, self.line_feeds - before)

    def until(self, offset: int) -> "Block":
        """Return the first ``offset`` bytes as a block."""
        return self if offset == len(self.data) else Block.of(self.data[:offset], self.line)

    def halves(self) -> "tuple[Block, Block]":
        """Split the block into two blocks of whole lines. It must have at least two lines."""
        middle = find(self.data, LINE_FEED, len(self.data) // 2) + 1
        if middle in (0, len(self.data)):
            middle = find_last(self.data[: len(self.data) // 2], LINE_FEED) + 1
        return self.until(middle), self.after(middle)

    def join(self, following: "Block") -> "Block":
        data = np.concatenate((self.data, following.data))
        return Block(data, self.line, self.line_feeds + following.line_feeds)

    def text(self, positions: LinePositions) -> str:
        """Decode the block.

        Raises:
            FormatError: If a line is not UTF-8. The error message includes the number of the first such line.
        """
        try:
            return self.to_bytes().decode()
        except UnicodeDecodeError as error:
            problem = "the bytes are not UTF-8; specify the option 'encoding', or convert the file"
            raise positions.error(self.line_at(error.start), problem) from None

    def check_text(self, positions: LinePositions) -> None:
        """Check that the block is valid text.

        Raises:
            FormatError: If a line is not UTF-8, or contains a zero byte. The error message includes the line number.
        """
        if contains_zero(self.data):
            problem = "it contains a zero byte, so it is not text; the file may be damaged or have another encoding"
            raise positions.error(self.line_at(find(self.data, 0)), problem)
        if not is_ascii(self.data):
            self.text(positions)


class LineBlocks:
    """Reads the lines of a file, or of a range of the file, in blocks.

    Args:
        file: The file. The offsets of its range refer to the UTF-8 text.
        max_line_bytes: The maximum length of a line (guarantee 3).
        encoding: The encoding of the file. Blocks are always UTF-8.
        lines_before: The number of lines before the range. None if the number is unknown. See :class:`LinePositions`.
        block_bytes: The number of bytes to read at once.
        stream: The file, open at its start. None to open it. :meth:`close` closes it in both cases.

    Attributes:
        positions: The positions of the lines.
        start_bytes: The length of the byte order mark that was removed.
    """

    def __init__(
        self,
        file: SourceFile,
        *,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        encoding: str = UTF_8,
        lines_before: int | None = None,
        block_bytes: int = BLOCK_BYTES,
        stream: TextStream | None = None,
    ) -> None:
        self.positions = LinePositions(file, 0 if file.start == 0 else lines_before)
        self._end = file.end
        self._max_line_bytes = max_line_bytes
        self._block_bytes = min(block_bytes, max_line_bytes)
        self._incomplete: ByteArray = np.empty(0, np.uint8)
        self._line = 1
        self._is_done = False
        self.start_bytes = 0
        self._stream = TextStream(file, encoding) if stream is None else stream
        try:
            self._seek(file.start)
        except BaseException:
            self._stream.close()
            raise

    def next(self) -> Block | None:
        """Return the next block of lines. Return None at the end."""
        while not self._is_done:
            start = self._stream.position - len(self._incomplete)
            data = self._read_more()
            if len(data) == len(self._incomplete):
                self._is_done = True
                return self._take_block(data, len(data)) if len(data) else None
            whole_bytes = find_last(data, LINE_FEED) + 1
            if self._end is not None and start + len(data) >= self._end:
                last = find(data, LINE_FEED, max(self._end - 1 - start, 0)) + 1
                self._is_done = last > 0
                whole_bytes = last or whole_bytes
            if whole_bytes:
                return self._take_block(data, whole_bytes)
            self._incomplete = data
            self._check_length(len(data))
        return None

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _seek(self, start: int) -> None:
        """Seek to the first line that begins at or after ``start``."""
        if start == 0:
            self._stream.skip_byte_order_mark()
            self.start_bytes = self._stream.position
            return
        self._stream.skip(start - 1)
        while data := self._stream.read(min(self._block_bytes, _SEARCH_BYTES)):
            if end_of_line := data.find(b"\n") + 1:
                self._stream.give_back(data[end_of_line:])
                break
        self._is_done = self._end is not None and self._stream.position >= self._end

    def _read_more(self) -> ByteArray:
        """Return the incomplete line and the bytes that follow it, in newly allocated memory."""
        kept = len(self._incomplete)
        data = allocate(kept + self._block_bytes)
        data[:kept] = self._incomplete
        return data[: kept + self._stream.read_into(data[kept:].data)]

    def _take_block(self, data: ByteArray, whole_bytes: int) -> Block:
        first_bytes = find(data[:whole_bytes], LINE_FEED)
        self._check_length(whole_bytes if first_bytes < 0 else first_bytes)
        block = Block.of(data[:whole_bytes], self._line)
        self._line += block.line_feeds
        self._incomplete = data[whole_bytes:]
        return block

    def _check_length(self, length_bytes: int) -> None:
        if length_bytes > self._max_line_bytes:
            raise self.positions.too_long(self._line, self._max_line_bytes)
