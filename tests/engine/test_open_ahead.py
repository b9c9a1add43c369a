"""Opening of the small files of a task before they are read."""

import io
import threading

import pytest

from engine.errors import UnreadableFileError
from engine.scan.reader import SourceFile
from engine.storage.open_ahead import MOST_BYTES, MOST_FILES, SMALL_BYTES, opened_ahead

DEADLINE_SECONDS = 60.0


class Storage:
    """Files in memory, which are open only while ``gate`` is set."""

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.opened = []
        self.closed = []

    def file(self, number, size_bytes=10):
        def opened():
            assert self.gate.wait(DEADLINE_SECONDS)
            self.opened.append(number)
            if number == self.broken:
                raise UnreadableFileError("dfs", str(number), "it is broken")
            return Content(self.closed, number)

        return SourceFile("dfs", str(number), size_bytes, opened)

    broken = -1


class Content(io.BytesIO):
    def __init__(self, closed, number):
        super().__init__(str(number).encode())
        self._closed, self._number = closed, number

    def close(self):
        self._closed.append(self._number)
        super().close()


@pytest.fixture
def storage():
    return Storage()


def read(file):
    with file.open() as raw:
        return raw.read()


def test_files_are_opened_once_and_in_order(storage):
    with opened_ahead([storage.file(number) for number in range(100)]) as files:
        assert [read(file) for file in files] == [b"%d" % number for number in range(100)]
    assert sorted(storage.opened) == list(range(100))


def test_next_files_are_opened_while_one_is_read(storage, wait_until):
    with opened_ahead([storage.file(number) for number in range(100)]) as files:
        for current, ahead in ((0, 1), (1, 2), (2, 4), (3, 8), (4, MOST_FILES), (5, MOST_FILES)):
            read(files[current])
            expected = set(range(current + ahead + 1))
            wait_until(lambda expected=expected: set(storage.opened) == expected, f"{ahead} files are open")


def test_few_bytes_are_ahead(storage, wait_until):
    files = [storage.file(number, SMALL_BYTES) for number in range(100)]
    with opened_ahead(files) as ahead:
        for number in range(10):
            read(ahead[number])
        expected = 10 + MOST_BYTES // SMALL_BYTES
        wait_until(lambda: len(storage.opened) == expected, f"{expected} files are open")


def test_large_files_are_not_opened_ahead(storage, wait_until):
    sizes = [1, SMALL_BYTES + 1, 1, 1]
    with opened_ahead([storage.file(number, size) for number, size in enumerate(sizes)]) as files:
        read(files[0])
        assert storage.opened == [0]
        read(files[1])
        wait_until(lambda: set(storage.opened) == {0, 1, 2, 3}, "the next ones are open")


def test_error_is_raised_for_its_file(storage, wait_until):
    storage.broken = 1
    with opened_ahead([storage.file(number) for number in range(3)]) as files:
        assert read(files[0]) == b"0"
        wait_until(lambda: 1 in storage.opened, "the broken file was opened ahead")
        with pytest.raises(UnreadableFileError, match="'1'"):
            files[1].open()
        assert read(files[2]) == b"2"


def test_second_opening_is_a_new_one(storage):
    with opened_ahead([storage.file(number) for number in range(2)]) as files:
        assert [read(files[0]), read(files[1]), read(files[1]), read(files[0])] == [b"0", b"1", b"1", b"0"]
    assert sorted(storage.opened) == [0, 0, 1, 1]


def test_unused_files_are_closed(storage, wait_until):
    with opened_ahead([storage.file(number) for number in range(3)]) as files:
        read(files[0])
        wait_until(lambda: 1 in storage.opened, "the next file is open")
        storage.gate.clear()
        read_1 = files[1].open()
    read_1.close()
    storage.gate.set()
    wait_until(lambda: sorted(storage.closed) == sorted(storage.opened), "all files are closed")


def test_fetches_of_an_ended_scan_delay_no_other(storage, wait_until):
    with opened_ahead([storage.file(number) for number in range(100)]) as files:
        for number in range(6):
            read(files[number])
        wait_until(lambda: len(storage.opened) == 6 + MOST_FILES, "the next ones are open")
        storage.gate.clear()
        for number in range(6, 6 + MOST_FILES):
            read(files[number])
    other = Storage()
    with opened_ahead([other.file(number) for number in range(5)]) as files:
        assert [read(file) for file in files] == [b"%d" % number for number in range(5)]
    storage.gate.set()
