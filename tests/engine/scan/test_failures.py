"""Readers that fail at any point of their life, and scans that are given up at any point."""

import pytest

from engine.context import ErrorContext
from engine.errors import EngineError, ReaderError
from engine.limits import BatchLimits

PLACES = ["start", "open", "first read", "second read", "close"]


def failing(scans, place, error):
    steps = {"first read": [error], "second read": [scans.batch(a=[1]), error]}
    batches = steps.get(place, [scans.batch(a=[1])])
    return scans.reader(*batches, fails_at=place, error=error)


def read_until_it_fails(scan):
    """What came before the failure, and the failure."""
    read = []
    with pytest.raises(EngineError) as raised:
        read.extend(scan.batches())
    return read, raised.value


@pytest.mark.parametrize("place", PLACES)
def test_a_plain_exception_is_told_with_the_file_and_keeps_its_cause(scans, place):
    reader = failing(scans, place, ValueError("no luck"))
    _, error = read_until_it_fails(scans.of(reader))
    assert isinstance(error, ReaderError)
    what = place.split()[-1]
    assert str(error) == f"'0.x' in workspace 'dfs': the reader could not {what}: ValueError: no luck"
    assert isinstance(error.__cause__, ValueError)
    assert reader.closed == (place != "start")


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_the_engine_passes_as_it_is(scans, place):
    error = EngineError("as it is")
    reader = failing(scans, place, error)
    assert read_until_it_fails(scans.of(reader))[1] is error
    assert reader.closed == (place != "start")


def test_a_failure_in_reading_names_the_place_that_the_reader_told(scans):
    class FailsAtLine7(type(scans.reader())):
        def next(self):
            self.loader.context = ErrorContext("dfs", "0.x", "line 7")
            return super().next()

    with pytest.raises(ReaderError, match=r"'0.x' in workspace 'dfs', line 7: the reader could not read"):
        scans.read(FailsAtLine7(ValueError("no luck")))


@pytest.mark.parametrize("place", ["second read", "close"])
def test_batches_before_a_failure_stay_valid(scans, place):
    scan = scans.of(failing(scans, place, ValueError("no luck")), limits=BatchLimits(rows=1))
    (batch,), _ = read_until_it_fails(scan)
    batch.validate(full=True)
    assert batch.to_pylist() == [{"a": 1}]


def test_no_reader_is_opened_after_one_that_failed(scans):
    readers = [failing(scans, "first read", ValueError("no luck")), scans.reader(scans.batch(a=[1]))]
    read_until_it_fails(scans.of(*readers))
    assert readers[1].opened == 0


@pytest.mark.parametrize("batches_read", [0, 1, 2])
def test_a_scan_that_is_given_up_closes_its_reader_once(scans, batches_read):
    reader = scans.reader(scans.batch(a=[1, 2, 3]))
    batches = scans.of(reader, limits=BatchLimits(rows=1)).batches()
    for _ in range(batches_read):
        next(batches)
    batches.close()
    assert reader.opened == reader.closed == (batches_read > 0)


def test_a_failure_in_closing_a_scan_that_is_given_up_is_told(scans):
    batches = scans.of(scans.reader(scans.batch(a=[1, 2]), fails_at="close"), limits=BatchLimits(rows=1)).batches()
    next(batches)
    with pytest.raises(ReaderError, match="could not close"):
        batches.close()


def test_a_reader_that_builds_no_loader_is_told(scans):
    class Lazy(type(scans.reader())):
        def open(self, negotiator):
            return True

    with pytest.raises(EngineError, match=r"'0.x' in workspace 'dfs': the reader opened without building a loader"):
        scans.read(Lazy())
