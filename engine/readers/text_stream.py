"""Sequential access to the bytes of a file, with decompression and change detection.

Guarantees:

1. If the file system fails, an UnreadableFileError is raised. If the data cannot be decompressed, or the compressed
   data ends too early, a FormatError is raised.
2. If the size of a file differs from its listed size, a FileChangedError is raised. The size is checked when the file
   is opened and when its end is reached.
3. Memory use does not depend on the size of the file, even if the file is highly compressed.

Not guaranteed: a file that was overwritten with the same number of bytes is not detected.
"""

import codecs
import os
from io import BufferedIOBase
from typing import BinaryIO, Self, cast

import pyarrow as pa

from engine.errors import FileChangedError, UnreadableFileError
from engine.readers.reader_errors import FormatError, one_line
from engine.scan.reader import SourceFile
from engine.suffixes import compression_of

UTF_8 = "utf-8"

_SKIP_BYTES = 4 * 1024 * 1024


def to_encoding(value: str) -> str:
    """Return the name that Python uses for an encoding.

    Raises:
        ValueError: If Python does not support the encoding.
    """
    try:
        name = codecs.lookup(value).name
        "a".encode(name)
        codecs.getincrementaldecoder(name)
    except (LookupError, UnicodeError):
        raise ValueError("is not a text encoding that Python supports") from None
    return name


def open_checked(file: SourceFile) -> BinaryIO:
    """Open a file without decompressing it, and check that its size has not changed.

    Raises:
        FileChangedError: If the size differs from the listed size.
        UnreadableFileError: If the file system cannot open or read the file.
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
    """Check that the size of an open file has not changed. Moves ``raw`` to its end.

    Raises:
        FileChangedError: If the size differs from the listed size.
        UnreadableFileError: If the file system cannot read the file.
    """
    try:
        size_bytes = raw.seek(0, os.SEEK_END)
    except OSError as error:
        raise _unreadable(file, error) from None
    if size_bytes != file.size_bytes:
        raise FileChangedError(file.context, f"it had {file.size_bytes:,} bytes and has {size_bytes:,}")


class ByteStream:
    """Reads the bytes of a file sequentially. The suffix determines the compression.

    Raises:
        FileChangedError: If the size of the file differs from the listed size.
        UnreadableFileError: If the file cannot be opened.
    """

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._raw = open_checked(file)
        self._codec = compression_of(file.path)
        self._decompressed: pa.CompressedInputStream | None = None
        if self._codec:
            adapter = ArrowFileAdapter(file, self._raw)
            self._decompressed = pa.CompressedInputStream(pa.PythonFile(adapter, mode="r"), self._codec)

    def read(self, limit_bytes: int) -> bytes:
        """Read the next ``limit_bytes`` bytes. Return fewer bytes only at the end of the file."""
        parts = []
        while limit_bytes > 0 and (part := self._read_some(limit_bytes)):
            parts.append(part)
            limit_bytes -= len(part)
        if not parts:
            check_size(self._file, self._raw)
        return b"".join(parts)

    def read_into(self, target: memoryview) -> int:
        """Read the next bytes into ``target``, like :meth:`read`, and return their number."""
        if self._decompressed is not None:
            return _copy(self.read(len(target)), target)
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
        if self._decompressed is None:
            self._raw.seek(count_bytes, os.SEEK_CUR)
            return
        while count_bytes > 0 and (part := self.read(min(count_bytes, _SKIP_BYTES))):
            count_bytes -= len(part)

    def _read_some(self, limit_bytes: int) -> bytes:
        if self._decompressed is None:
            try:
                return self._raw.read(limit_bytes)
            except OSError as error:
                raise _unreadable(self._file, error) from None
        try:
            return bytes(self._decompressed.read(limit_bytes))
        except (OSError, pa.ArrowException) as error:
            problem = f"it cannot be decompressed as {self._codec}, which its suffix indicates: {one_line(error)}"
            raise FormatError(self._file.context, problem) from None

    def close(self) -> None:
        if self._decompressed is not None:
            self._decompressed.close()
        self._raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TextStream:
    """Reads the text of a file as UTF-8. The last bytes that were read can be given back.

    Attributes:
        position: The number of bytes of UTF-8 text before the next byte.

    Raises:
        FileChangedError: If the size of the file differs from the listed size.
        UnreadableFileError: If the file cannot be opened.
    """

    def __init__(self, file: SourceFile, encoding: str = UTF_8) -> None:
        self.position = 0
        self._file = file
        self._encoding = encoding
        self._decoder = None if encoding == UTF_8 else codecs.getincrementaldecoder(encoding)()
        self._buffer = b""
        self._bytes = ByteStream(file)

    def read(self, limit_bytes: int) -> bytes:
        """Read the next ``limit_bytes`` bytes. Return fewer bytes only at the end of the file.

        Raises:
            FormatError: If the bytes are not valid in the encoding. This method does not validate UTF-8.
        """
        while len(self._buffer) < limit_bytes and (data := self._bytes.read(limit_bytes - len(self._buffer))):
            self._buffer = self._buffer + self._to_utf_8(data) if self._buffer or self._decoder else data
        if len(self._buffer) < limit_bytes:
            self._buffer += self._to_utf_8(b"")
        data, self._buffer = self._buffer[:limit_bytes], self._buffer[limit_bytes:]
        self.position += len(data)
        return data

    def read_into(self, target: memoryview) -> int:
        """Read the next bytes into ``target``, like :meth:`read`, and return their number."""
        if self._decoder is not None:
            return _copy(self.read(len(target)), target)
        done = _copy(self._buffer[: len(target)], target)
        self._buffer = self._buffer[done:]
        if done < len(target):
            done += self._bytes.read_into(target[done:])
        self.position += done
        return done

    def give_back(self, data: bytes) -> None:
        """Give back the end of the last read, so that the next read starts with these bytes."""
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
        """Skip a byte order mark. Call this method only at the start of a file."""
        start = self.read(len(codecs.BOM_UTF8))
        if start != codecs.BOM_UTF8:
            self.give_back(start)

    def close(self) -> None:
        self._bytes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _to_utf_8(self, data: bytes) -> bytes:
        """Convert bytes of the file to UTF-8. Pass empty ``data`` at the end of the text."""
        if self._decoder is None:
            return data
        try:
            return self._decoder.decode(data, final=not data).encode()
        except UnicodeError as error:
            problem = f"the bytes are not {self._encoding}, which the option 'encoding' specifies: {one_line(error)}"
            raise FormatError(self._file.context.at(f"after byte {self.position}"), problem) from None


class ArrowFileAdapter:
    """File object for pyarrow that raises UnreadableFileError if the file system fails.

    pyarrow does not change this error. Therefore a storage failure is not reported as invalid content.
    """

    def __init__(self, file: SourceFile, raw: BinaryIO) -> None:
        self._file = file
        self._raw = raw

    @property
    def size_bytes(self) -> int:
        """The size of the file, which was checked when it was opened."""
        return self._file.size_bytes

    @property
    def closed(self) -> bool:
        return self._raw.closed

    def read(self, limit_bytes: int = -1) -> bytes:
        """Read ``limit_bytes`` bytes, or fewer at the end of the file.

        If the limit is negative, read all remaining bytes.
        """
        parts = []
        try:
            while limit_bytes and (part := self._raw.read(limit_bytes)):
                parts.append(part)
                limit_bytes -= len(part) if limit_bytes > 0 else 0
        except OSError as error:
            raise _unreadable(self._file, error) from None
        return b"".join(parts)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
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
        """Do nothing, because the file is only read."""

    def close(self) -> None:
        """Leave the file open. The caller that opened the file closes it."""


def _copy(data: bytes, target: memoryview) -> int:
    """Copy bytes into memory and return the number of bytes."""
    target[: len(data)] = data
    return len(data)


def _unreadable(file: SourceFile, error: OSError) -> UnreadableFileError:
    return UnreadableFileError(file.workspace, file.path, error.strerror or type(error).__name__)
