"""One reader, from its opening to its close, as batches of what it read.

Guarantees (drill-behaviours, D3):

1. ``close`` is called once, whatever happened before, also if the batches are given up half-way.
2. What a reader raises that is not an EngineError becomes a ReaderError with the file's name, and with the place that
   the reader last told its loader; the cause is chained. Batches that were handed over before stay valid. A conflict
   of types that is known before the first row is said to be in the file's schema, unless the reader names a place.
3. A row that overflowed at the end of the file comes as a batch of its own.
4. A batch without rows comes only once, first, and only if the reader knew its schema before it read.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.errors import EngineError, ReaderError, SchemaConflictError
from engine.result_set.loader import ResultSetLoader
from engine.scan.negotiator import ScanNegotiator
from engine.scan.reader import RowBatchReader

_ENOUGH_ROWS = 8_192
"""A batch of so many rows is handed on: to fill it up, appended arrays would have to be joined, and so copied."""


def read_batches(
    make_reader: Callable[[], RowBatchReader], negotiator: ScanNegotiator
) -> Generator[pa.RecordBatch, None, None]:
    """The reader's own columns, as far as they are projected, batch by batch.

    Raises:
        EngineError: As the reader failed.
    """
    with _told(negotiator, "start"):
        reader = make_reader()
    try:
        with _told(negotiator, "open"), _placed():
            is_open = reader.open(negotiator)
        if is_open:
            yield from _batches(reader, negotiator)
    finally:
        with _told(negotiator, "close"):
            reader.close()


def _batches(reader: RowBatchReader, negotiator: ScanNegotiator) -> Iterator[pa.RecordBatch]:
    loader = negotiator.loader
    more, is_first = True, True
    try:
        while (more or loader.has_look_ahead) and not loader.is_at_scan_limit:
            more = _filled(reader, loader, more)
            batch = loader.harvest()
            if batch.num_rows or (is_first and batch.num_columns):
                yield batch
            is_first = False
    finally:
        loader.close()


def _filled(reader: RowBatchReader, loader: ResultSetLoader, more: bool) -> bool:
    """Fills one batch. Returns: Whether the reader may have more."""
    loader.start_batch()
    while more and not loader.is_full and loader.row_count < _ENOUGH_ROWS:
        with _told(loader, "read"):
            more = reader.next()
    return more


@contextmanager
def _placed() -> Iterator[None]:
    try:
        yield
    except SchemaConflictError as conflict:
        raise conflict if conflict.context.position else conflict.at("schema") from None


@contextmanager
def _told(place: ScanNegotiator | ResultSetLoader, what: str) -> Iterator[None]:
    try:
        yield
    except (EngineError, GeneratorExit):
        raise
    except Exception as error:  # a reader may be anyone's code
        problem = f"could not {what}: {error.__class__.__name__}: {error}"
        raise ReaderError(f"the reader {problem}", place.context) from error
