"""The bytes of a text file of a scan, in order: opened, decompressed, and watched for changes.

Guarantees:

1. What the file system refuses is an UnreadableFileError; what cannot be decompressed is a FormatError. Text that
   only ended too early inside its compression is refused too.
2. A file whose size is not the listed one, when it is opened or when its end is reached, is a FileChangedError.
3. Memory does not grow with the file, however well it was compressed.

Not guaranteed: that a file which was overwritten with as many bytes is noticed.
"""

import codecs
import os
from io import BufferedIOBase
from pathlib import PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self, cast

import pyarrow as pa

from engine.errors import UnreadableFileError
from engine.readers.errors import FileChangedError, FormatError, one_line
from engine.scan.reader import SourceFile
from engine.suffixes import COMPRESSIONS

UTF_8 = "utf-8"

_SKIP_BYTES = 4 * 1024 * 1024


def codec_of(path: str) -> str | None:
    """The compression that the suffix of a path names, in any letter case."""
    return COMPRESSIONS.get(PurePosixPath(path).suffix.lower())


def open_checked(file: SourceFile) -> BinaryIO:
    """Opens a file as it is.

    Raises: FileChangedError, UnreadableFileError.
    """
    try:
        raw = file.open()
    except OSError as error:
        raise _unreadable(file, error) from None
    try:
        check_size(file, raw)
        raw.seek(0)
    except BaseException:
        raw.close()
        raise
    return raw


def check_size(file: SourceFile, raw: BinaryIO) -> None:
    """Moves ``raw`` to its end. Raises: FileChangedError, UnreadableFileError."""
    try:
        size_bytes = raw.seek(0, os.SEEK_END)
    except OSError as error:
        raise _unreadable(file, error) from None
    if size_bytes != file.size_bytes:
        raise FileChangedError(file.context, file.size_bytes, size_bytes)


class ByteStream:
    """Reads one file from its start to its end, decompressed as its suffix says."""

    def __init__(self, file: SourceFile) -> None:
        """Raises: FileChangedError, UnreadableFileError."""
        self._file = file
        self._raw = open_checked(file)
        self._codec = codec_of(file.path)
        self._inflated: pa.CompressedInputStream | None = None
        if self._codec:
            self._inflated = pa.CompressedInputStream(
                pa.PythonFile(ArrowFileAdapter(file, self._raw), mode="r"), self._codec
            )

    def read(self, limit_bytes: int) -> bytes:
        """The next bytes, as many as asked for unless the file ends; none at its end."""
        parts = []
        while limit_bytes > 0 and (part := self._read_some(limit_bytes)):
            parts.append(part)
            limit_bytes -= len(part)
        if not parts:
            check_size(self._file, self._raw)
        return b"".join(parts)

    def read_into(self, target: memoryview) -> int:
        """As :meth:`read`, to memory. Returns: How many bytes."""
        if self._inflated is not None:
            return _copied(self.read(len(target)), target)
        done = 0
        try:
            while done < len(target) and (more := cast("BufferedIOBase", self._raw).readinto(target[done:])):
                done += more
        except OSError as error:
            raise _unreadable(self._file, error) from None
        if not done:
            check_size(self._file, self._raw)
        return done

    def skip(self, count_bytes: int) -> None:
        """Goes on without the next bytes."""
        if self._inflated is None:
            self._raw.seek(count_bytes, os.SEEK_CUR)
            return
        while count_bytes > 0 and (part := self.read(min(count_bytes, _SKIP_BYTES))):
            count_bytes -= len(part)

    def _read_some(self, limit_bytes: int) -> bytes:
        if self._inflated is None:
            try:
                return self._raw.read(limit_bytes)
            except OSError as error:
                raise _unreadable(self._file, error) from None
        try:
            return bytes(self._inflated.read(limit_bytes))
        except (OSError, pa.ArrowException) as error:
            problem = f"it cannot be decompressed as {self._codec}, as its suffix says: {one_line(error)}"
            raise FormatError(self._file.context, problem) from None

    def close(self) -> None:
        if self._inflated is not None:
            self._inflated.close()
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TextStream:
    """The text of a file as UTF-8, with a place to go back a little.

    Attributes:
        position: How many bytes of UTF-8 lie before what is read next.
    """

    def __init__(self, file: SourceFile, encoding: str = UTF_8) -> None:
        """Raises: As ByteStream."""
        self.position = 0
        self._file = file
        self._encoding = encoding
        self._decoder = None if encoding == UTF_8 else codecs.getincrementaldecoder(encoding)()
        self._buffer = b""
        self._bytes = ByteStream(file)

    def read(self, limit_bytes: int) -> bytes:
        """The next bytes, fewer only at the end. Of UTF-8 nothing is checked; others may raise FormatError."""
        while len(self._buffer) < limit_bytes and (data := self._bytes.read(limit_bytes - len(self._buffer))):
            self._buffer = self._buffer + self._recoded(data) if self._buffer or self._decoder else data
        if len(self._buffer) < limit_bytes:
            self._buffer += self._recoded(b"")
        data, self._buffer = self._buffer[:limit_bytes], self._buffer[limit_bytes:]
        self.position += len(data)
        return data

    def read_into(self, target: memoryview) -> int:
        """As :meth:`read`, to memory. Returns: How many bytes."""
        if self._decoder is not None:
            return _copied(self.read(len(target)), target)
        done = _copied(self._buffer[: len(target)], target)
        self._buffer = self._buffer[done:]
        if done < len(target):
            done += self._bytes.read_into(target[done:])
        self.position += done
        return done

    def give_back(self, data: bytes) -> None:
        """Puts the end of what was read last before what is read next."""
        self._buffer = data + self._buffer
        self.position -= len(data)

    def skip(self, count_bytes: int) -> None:
        if self._decoder is None and not self._buffer:
            self._bytes.skip(count_bytes)
            self.position += count_bytes
            return
        end = self.position + count_bytes
        while self.position < end and self.read(min(end - self.position, _SKIP_BYTES)):
            pass

    def skip_byte_order_mark(self) -> None:
        """At the start of a file."""
        start = self.read(len(codecs.BOM_UTF8))
        if start != codecs.BOM_UTF8:
            self.give_back(start)

    def close(self) -> None:
        self._bytes.close()

    def _recoded(self, data: bytes) -> bytes:
        if self._decoder is None:
            return data
        try:
            return self._decoder.decode(data, final=not data).encode()
        except UnicodeError as error:
            problem = f"the bytes are not {self._encoding}, as the option 'encoding' says: {one_line(error)}"
            raise FormatError(self._file.context.at(f"after byte {self.position}"), problem) from None


class ArrowFileAdapter:
    """A file for pyarrow whose own failures stay apart from those of the contents."""

    def __init__(self, file: SourceFile, raw: BinaryIO) -> None:
        self._file = file
        self._raw = raw

    @property
    def closed(self) -> bool:
        return self._raw.closed

    def read(self, limit_bytes: int = -1) -> bytes:
        """All of the bytes asked for, unless the file ends. Raises: UnreadableFileError."""
        parts = []
        try:
            while limit_bytes and (part := self._raw.read(limit_bytes)):
                parts.append(part)
                limit_bytes -= len(part) if limit_bytes > 0 else 0
        except OSError as error:
            raise _unreadable(self._file, error) from None
        return b"".join(parts)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Raises: UnreadableFileError."""
        try:
            return self._raw.seek(offset, whence)
        except OSError as error:
            raise _unreadable(self._file, error) from None

    def tell(self) -> int:
        return self._raw.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Leaves the file open; whoever opened it closes it."""


def _copied(data: bytes, target: memoryview) -> int:
    target[: len(data)] = data
    return len(data)


def _unreadable(file: SourceFile, error: OSError) -> UnreadableFileError:
    return UnreadableFileError(file.workspace, file.path, error.strerror or type(error).__name__)
