"""The row limit of a scan, and overflow at the end of a file."""

import pytest

from engine.limits import BatchLimits


@pytest.fixture
def read_limited(scans):
    """Read three files of five rows each, up to a limit and in batches of two rows.

    Returns:
        The rows of each batch, and the number of opened files.
    """

    def read(limit):
        readers = [scans.reader(scans.batch(a=list(range(5 * file, 5 * file + 5)))) for file in range(3)]
        limits = BatchLimits(rows=2, scan_rows=limit)
        batches = [batch.column(0).to_pylist() for batch in scans.of(*readers, limits=limits).batches()]
        assert all(reader.opened == reader.closed for reader in readers)
        return batches, sum(reader.opened for reader in readers)

    return read


def test_limit_0_gives_one_empty_batch_with_schema(scans):
    reader = scans.reader(scans.batch(a=[1]), schema=scans.batch(a=[1]).schema)
    next_reader = scans.reader()
    (batch,) = scans.of(reader, next_reader, limits=BatchLimits(scan_rows=0)).batches()
    assert (batch.num_rows, batch.schema.names) == (0, ["a"])
    assert reader.steps  # nothing was read
    assert next_reader.opened == 0


def test_limit_0_without_schema_gives_no_batch(scans):
    assert list(scans.of(scans.reader(scans.batch(a=[1])), limits=BatchLimits(scan_rows=0)).batches()) == []


@pytest.mark.parametrize(
    ("limit", "batches", "opened"),
    [
        pytest.param(1, [[0]], 1, id="1"),
        pytest.param(2, [[0, 1]], 1, id="at_the_end_of_the_first_batch"),
        pytest.param(3, [[0, 1], [2]], 1, id="in_the_second_batch"),
        pytest.param(4, [[0, 1], [2, 3]], 1, id="at_the_end_of_the_second_batch"),
        pytest.param(5, [[0, 1], [2, 3], [4]], 1, id="at_the_end_of_the_file"),
        pytest.param(6, [[0, 1], [2, 3], [4], [5]], 2, id="at_the_first_row_of_the_second_file"),
        pytest.param(8, [[0, 1], [2, 3], [4], [5, 6], [7]], 2, id="in_the_second_batch_of_the_second_file"),
    ],
)
def test_limit_ends_scan_and_opens_no_other_file(read_limited, limit, batches, opened):
    assert read_limited(limit) == (batches, opened)


def test_unreached_limit_changes_nothing(read_limited):
    assert read_limited(99) == read_limited(None)


def test_limit_100_in_batches_of_75_is_75_and_25(scans):
    limits = BatchLimits(rows=75, scan_rows=100)
    batches = scans.of(scans.reader(scans.batch(a=list(range(200)))), limits=limits).batches()
    assert [batch.num_rows for batch in batches] == [75, 25]


@pytest.mark.parametrize("ends_late", [False, True])
def test_overflow_row_at_end_of_file_is_its_own_batch(scans, ends_late):
    big = "x" * 600
    readers = [
        scans.reader(scans.batch(a=[big, big, big]), ends_late=ends_late),
        scans.reader(scans.batch(a=["y", "z"])),
    ]
    batches = [
        batch.column(0).to_pylist() for batch in scans.of(*readers, limits=BatchLimits(vector_bytes=1300)).batches()
    ]
    assert batches == [[big, big], [big], ["y", "z"]]


def test_limit_includes_overflow_rows(scans):
    big = "x" * 600
    reader = scans.reader(scans.batch(a=[big, big, big]))
    limits = BatchLimits(vector_bytes=1000, scan_rows=2)
    assert [batch.num_rows for batch in scans.of(reader, limits=limits).batches()] == [1, 1]


def test_rows_may_overflow_into_several_batches(scans):
    texts = [str(number) * 600 for number in range(7)]
    batches = scans.of(scans.reader(scans.batch(a=texts)), limits=BatchLimits(vector_bytes=1000)).batches()
    assert [batch.column(0).to_pylist() for batch in batches] == [[text] for text in texts]
