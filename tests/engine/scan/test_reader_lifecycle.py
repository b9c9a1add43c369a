"""Readers that fail at any point, and scans that are abandoned at any point."""

import pytest

from engine.context import ErrorContext
from engine.errors import EngineError, ReaderError
from engine.limits import BatchLimits

PLACES = ["start", "open", "first read", "second read", "close"]


def failing_reader(scans, place, error):
    steps = {"first read": [error], "second read": [scans.batch(a=[1]), error]}
    batches = steps.get(place, [scans.batch(a=[1])])
    return scans.reader(*batches, fails_at=place, error=error)


def read_until_it_fails(scan):
    """Return the batches before the failure, and the failure."""
    read = []
    with pytest.raises(EngineError) as raised:
        read.extend(scan.batches())
    return read, raised.value


@pytest.mark.parametrize("place", PLACES)
def test_exception_of_reader_names_file_and_keeps_cause(scans, place):
    reader = failing_reader(scans, place, ValueError("no luck"))
    _, error = read_until_it_fails(scans.of(reader))
    assert isinstance(error, ReaderError)
    action = place.split()[-1]
    assert str(error) == f"'0.x' in workspace 'dfs': the reader could not {action}: ValueError"
    assert isinstance(error.__cause__, ValueError)
    assert reader.closed == (place != "start")


def test_failure_of_reader_shows_no_path_of_the_server(scans):
    _, error = read_until_it_fails(scans.of(failing_reader(scans, "open", FileNotFoundError(2, "gone", "/srv/a"))))
    assert str(error) == "'0.x' in workspace 'dfs': the reader could not open: No such file or directory"


@pytest.mark.parametrize("place", PLACES)
def test_engine_error_of_reader_passes_unchanged(scans, place):
    error = EngineError("as it is")
    reader = failing_reader(scans, place, error)
    assert read_until_it_fails(scans.of(reader))[1] is error
    assert reader.closed == (place != "start")


def test_failure_names_place_set_by_reader(scans):
    class FailsAtLine7(type(scans.reader())):
        def next(self):
            self.loader.context = ErrorContext("dfs", "0.x", "line 7")
            return super().next()

    with pytest.raises(ReaderError, match=r"'0.x' in workspace 'dfs', line 7: the reader could not read"):
        scans.read(FailsAtLine7(ValueError("no luck")))


@pytest.mark.parametrize("place", ["second read", "close"])
def test_batches_before_failure_stay_valid(scans, place):
    scan = scans.of(failing_reader(scans, place, ValueError("no luck")), limits=BatchLimits(rows=1))
    (batch,), _ = read_until_it_fails(scan)
    batch.validate(full=True)
    assert batch.to_pylist() == [{"a": 1}]


def test_no_reader_is_opened_after_failure(scans):
    readers = [failing_reader(scans, "first read", ValueError("no luck")), scans.reader(scans.batch(a=[1]))]
    read_until_it_fails(scans.of(*readers))
    assert readers[1].opened == 0


@pytest.mark.parametrize("batches_read", [0, 1, 2])
def test_abandoned_scan_closes_its_reader_and_opens_no_other(scans, batches_read):
    reader, next_reader = scans.reader(scans.batch(a=[1, 2, 3])), scans.reader(scans.batch(a=[4]))
    batches = scans.of(reader, next_reader, limits=BatchLimits(rows=1)).batches()
    for _ in range(batches_read):
        next(batches)
    batches.close()
    assert reader.opened == reader.closed == (batches_read > 0)
    assert next_reader.opened == 0


def test_failure_to_close_abandoned_scan_is_raised(scans):
    batches = scans.of(scans.reader(scans.batch(a=[1, 2]), fails_at="close"), limits=BatchLimits(rows=1)).batches()
    next(batches)
    with pytest.raises(ReaderError, match="could not close"):
        batches.close()


def test_reader_without_loader_is_refused(scans):
    class Lazy(type(scans.reader())):
        def open(self, negotiator):
            return True

    with pytest.raises(EngineError, match=r"'0.x' in workspace 'dfs': the reader opened without building a loader"):
        scans.read(Lazy())
