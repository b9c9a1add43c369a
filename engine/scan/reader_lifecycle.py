"""Lifecycle of a reader, from its creation to its end, and the batches that it produces.

Guarantees:

1. ``close`` is called exactly once, even if the reader failed or its batches were not read to the end.
2. An exception that is not an ``EngineError`` is converted to a ``ReaderError``. This error contains the name of the
   file and the last position that the reader set in its loader. The original exception is chained as the cause.
   Earlier batches remain valid. A type conflict that is detected before the first row has the position "schema",
   unless the reader sets another position.
3. If a row overflows at the end of the file, it becomes a separate batch.
4. A batch without rows is produced at most once. It is then the first batch, and is produced only if the reader knew
   its schema before reading.
5. A reader continues with another file only after the end of its file, and only while the batch accepts more rows.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.errors import EngineError, ReaderError, SchemaConflictError, describe_cause
from engine.result_set.loader import ResultSetLoader
from engine.scan.negotiator import ScanNegotiator
from engine.scan.reader import RowBatchReader

Proceed = Callable[[RowBatchReader], bool]
"""Lets a reader continue with another file. Returns whether it does."""

_ENOUGH_ROWS = 8_192
"""The number of rows from which a batch is not filled further.

Filling a larger batch would copy its rows, because appended arrays must be joined.
"""


def read_batches(
    make_reader: Callable[[], RowBatchReader], negotiator: ScanNegotiator, proceed: Proceed
) -> Generator[pa.RecordBatch, None, None]:
    """Read the projected columns of a reader, batch by batch.

    Args:
        make_reader: Creates the reader.
        negotiator: The negotiator of the reader.
        proceed: Called at the end of each file.

    Raises:
        EngineError: If the reader fails.
    """
    with _wrap_errors(negotiator, "start"):
        reader = make_reader()
    try:
        with _wrap_errors(negotiator, "open"), _locate_conflicts():
            is_open = reader.open(negotiator)
        if is_open:
            yield from _read_open(reader, negotiator.loader, proceed)
    finally:
        with _wrap_errors(negotiator, "close"):
            reader.close()


def _read_open(reader: RowBatchReader, loader: ResultSetLoader, proceed: Proceed) -> Iterator[pa.RecordBatch]:
    more, is_first = True, True
    try:
        while (more or loader.has_look_ahead) and not loader.is_at_scan_limit:
            loader.start_batch()
            with _wrap_errors(loader, "read"):
                while more and not loader.is_full and loader.row_count < _ENOUGH_ROWS:
                    more = reader.next() or (not loader.is_full and proceed(reader))
            batch = loader.harvest()
            if batch.num_rows or (is_first and batch.num_columns):
                yield batch
            is_first = False
    finally:
        loader.close()


@contextmanager
def _locate_conflicts() -> Iterator[None]:
    try:
        yield
    except SchemaConflictError as conflict:
        raise conflict if conflict.context.position else conflict.at("schema") from None


@contextmanager
def _wrap_errors(source: ScanNegotiator | ResultSetLoader, action: str) -> Iterator[None]:
    try:
        yield
    except (EngineError, GeneratorExit):
        raise
    except Exception as error:  # a reader may be third-party code
        raise ReaderError(f"the reader could not {action}: {describe_cause(error)}", source.context) from error
