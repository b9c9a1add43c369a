"""What the readers of formats raise beside the errors of :mod:`engine.errors`, and the translation of pyarrow's.

FileError
├── FormatError             the contents are not what the reader reads
│   └── RowTooLongError     one row or value is longer than the reader may hold in memory
└── FileChangedError        the file is not the one that was listed
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, FileError


class FormatError(FileError):
    """The contents are not what the reader reads.

    Attributes:
        position: Where, such as ``line 7`` or ``row group 2``; empty if it is about the whole file.
    """

    def __init__(self, context: ErrorContext, problem: str) -> None:
        place = f", {context.position}" if context.position else ""
        super().__init__(context.workspace, context.path, f"{place}: {problem}.")
        self.position = context.position


class RowTooLongError(FormatError):
    def __init__(self, context: ErrorContext, limit_bytes: int, advice: str) -> None:
        super().__init__(context, f"it is longer than {limit_bytes:,} bytes (option 'max_line_bytes'); {advice}")
        self.limit_bytes = limit_bytes


class FileChangedError(FileError):
    def __init__(self, context: ErrorContext, listed_bytes: int, found_bytes: int) -> None:
        super().__init__(
            context.workspace,
            context.path,
            f" changed while it was scanned: it had {listed_bytes:,} bytes and has {found_bytes:,}. Run the "
            "statement again when nothing writes to it.",
        )


@contextmanager
def format_errors(context: ErrorContext, kind: str) -> Iterator[None]:
    """Turns what pyarrow raises at contents that it cannot read into a FormatError; ``kind`` is such as 'Parquet'.

    Names of columns that are the same are an error of the file too: it gets the context.
    """
    try:
        yield
    except DuplicateColumnError as error:
        raise DuplicateColumnError(error.first, error.second, context) from None
    except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError, KeyError) as error:
        raise FormatError(context, f"this is not readable as {kind}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """What an error says, short enough for a message of one line."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."
