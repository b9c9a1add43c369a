"""The guarantees of ``engine.readers.text_stream``: compression, changed files and memory."""

import bz2
import gzip
import io
import tracemalloc

import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.context import ErrorContext
from engine.errors import FileChangedError, UnreadableFileError
from engine.limits import BatchLimits
from engine.projection.project_list import EVERYTHING
from engine.readers.reader_errors import FormatError
from engine.readers.registry import reader_format
from engine.scan.reader import SourceFile
from engine.scan.scan import Scan, ScanInput, ScanPlan

ROWS = b"a,b\n1,2\n"


def compressed(codec, data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: compressed("zstd", data),
    "lz4": lambda data: compressed("lz4", data),
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_suffix_names_the_compression_in_any_case(memory_file, suffix):
    data = COMPRESS[suffix](b'{"a":1}\n')
    assert memory_file(f"a.JSON.{suffix.upper()}", data).rows() == [{"a": 1}]
    assert memory_file(f"a.csv.{suffix}", COMPRESS[suffix](ROWS), header=True).rows() == [{"a": "1", "b": "2"}]


def test_concatenated_compressed_streams_are_one_file(memory_file):
    data = gzip.compress(b"a\n") + gzip.compress(b"b\n")
    assert memory_file("a.csv.gz", data).rows() == [{"columns": ["a"]}, {"columns": ["b"]}]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_failed_decompression_names_the_file(memory_file, suffix):
    whole = COMPRESS[suffix](b"a,b\n" * 10_000)
    for data in (b"a,b\n" * 5, whole[: len(whole) // 2], whole[:-6] + b"\xff" * 6):
        with pytest.raises(FormatError, match=rf"'x/a.csv.{suffix}' in workspace 'dfs': it cannot be decompressed"):
            memory_file(f"x/a.csv.{suffix}", data).rows()


def source(path, open_, size_bytes):
    return SourceFile("dfs", path, size_bytes, open_)


def read(file, **options):
    format_ = reader_format(file)
    one = ScanInput(file, lambda: format_.reader(file, format_.options(**options)))
    return list(Scan([one], ScanPlan(file.path), ErrorContext("dfs")).batches())


def parquet_bytes():
    sink = io.BytesIO()
    parquet.write_table(pa.table({"a": [1]}), sink)
    return sink.getvalue()


CONTENTS = {"a.csv": ROWS, "a.json": b'{"a":1}\n', "a.parquet": parquet_bytes()}


class Growing(io.BytesIO):
    """A file that grows each time its end is sought after the first time."""

    seeks = 0

    def seek(self, offset, whence=0):
        if whence == io.SEEK_END:
            self.seeks += 1
            if self.seeks > 1:
                position = self.tell()
                super().seek(0, whence)
                self.write(b"more\n")
                super().seek(position)
        return super().seek(offset, whence)


@pytest.mark.parametrize("path", CONTENTS)
def test_file_changed_since_listing_is_rejected(path):
    data = CONTENTS[path]
    with pytest.raises(FileChangedError, match=rf"'{path}' .*changed .*: it had {len(data) + 1} bytes"):
        read(source(path, lambda: io.BytesIO(data), len(data) + 1))


@pytest.mark.parametrize("path", ["a.csv", "a.json"])
def test_file_changed_while_reading_is_rejected(path):
    data = CONTENTS[path]
    with pytest.raises(FileChangedError, match="Run the statement again"):
        read(source(path, lambda: Growing(data), len(data)))


class FailsInTheMiddle(io.BytesIO):
    """A file whose storage fails after the first bytes."""

    def readinto(self, target):
        if self.tell():
            raise OSError(5, "Input/output error")
        return super().readinto(target[:4])

    def read(self, size=-1):
        if self.tell():
            raise OSError(5, "Input/output error")
        return super().read(4)


@pytest.mark.parametrize("path", [*CONTENTS, "a.csv.gz"])
def test_storage_failure_names_the_file(path):
    data = CONTENTS.get(path, gzip.compress(ROWS))
    with pytest.raises(UnreadableFileError, match=rf"'{path}' .*Input/output error"):
        read(source(path, lambda: FailsInTheMiddle(data), len(data)))


def vanished():
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize("path", CONTENTS)
def test_missing_file_is_named(path):
    with pytest.raises(UnreadableFileError, match=f"'{path}' .*No such file"):
        read(source(path, vanished, 8))


@pytest.mark.parametrize("path", ["a.csv.gz", "a.json.gz", "a.jsonl.gz"])
def test_line_of_200_mb_is_rejected_in_little_memory(memory_file, path):
    begin = b"[" if path == "a.json.gz" else b""
    data = gzip.compress(begin + b'{"a":"' + b"x" * (200 << 20), compresslevel=1)
    file = memory_file(path, data)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match=r"(line|object) 1: it is longer than 16,777,216 bytes"):
            file.rows()
        assert tracemalloc.get_traced_memory()[1] < 150 << 20
    finally:
        tracemalloc.stop()


class Endless(io.RawIOBase):
    """A large file that repeats the same lines without storing them."""

    def __init__(self, line, size_bytes):
        super().__init__()
        self._lines = line * (2 + (1 << 20) // len(line))
        self._line_bytes = len(line)
        self._size_bytes = size_bytes
        self._position = 0

    def readinto(self, target):
        start = self._position % self._line_bytes
        length = min(len(target), 1 << 20, self._size_bytes - self._position)
        target[:length] = self._lines[start : start + length]
        self._position += length
        return length

    def read(self, size=-1):
        target = bytearray(size)
        return bytes(target[: self.readinto(target)])

    def seek(self, offset, whence=0):
        self._position = offset + (self._size_bytes if whence == io.SEEK_END else 0)
        return self._position

    def seekable(self):
        return True


@pytest.mark.parametrize(("path", "line"), [("a.csv", b"some,text\n"), ("a.json", b'{"a":"some text"}\n')])
def test_memory_does_not_grow_with_the_file(path, line):
    size_bytes = len(line) * ((100 << 20) // len(line))
    file = source(path, lambda: Endless(line, size_bytes), size_bytes)
    format_ = reader_format(file)
    one = ScanInput(file, lambda: format_.reader(file, format_.options()))
    scan = Scan([one], ScanPlan(path, projection=EVERYTHING, limits=BatchLimits()), file.context)
    rows, most_bytes = 0, 0
    before = pa.total_allocated_bytes()
    for batch in scan.batches():
        rows += batch.num_rows
        most_bytes = max(most_bytes, pa.total_allocated_bytes() - before)
    assert rows == size_bytes // len(line)
    assert most_bytes < 64 << 20
