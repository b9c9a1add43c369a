"""The errors of the formats, and the translation of pyarrow's errors into them.

FileError
├── FormatError             LODGE_MALFORMED_FILE
│   └── RowTooLongError     LODGE_ROW_TOO_LONG
└── FileChangedError        LODGE_FILE_CHANGED
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, FileError


class FormatError(FileError):
    """A file whose contents are not of its format.

    Attributes:
        position: Where, such as ``line 7`` or ``row group 2``; empty if the error is about the whole file.
    """

    condition = "LODGE_MALFORMED_FILE"
    sql_state = "22000"

    def __init__(self, context: ErrorContext, problem: str) -> None:
        place = f", {context.position}" if context.position else ""
        super().__init__(context.workspace, context.path, f"{place}: {problem}.", {"position": context.position})
        self.position = context.position


class RowTooLongError(FormatError):
    """A row or value that is longer than the reader may hold in memory."""

    condition = "LODGE_ROW_TOO_LONG"
    sql_state = "54000"

    def __init__(self, context: ErrorContext, limit_bytes: int, advice: str) -> None:
        super().__init__(context, f"it is longer than {limit_bytes:,} bytes (option 'max_line_bytes'); {advice}")
        self.limit_bytes = limit_bytes


class FileChangedError(FileError):
    """A file that changed after it was listed."""

    condition = "LODGE_FILE_CHANGED"
    sql_state = "58030"

    def __init__(self, context: ErrorContext, listed_bytes: int, found_bytes: int) -> None:
        super().__init__(
            context.workspace,
            context.path,
            f" changed while it was scanned: it had {listed_bytes:,} bytes and has {found_bytes:,}. Run the "
            "statement again when nothing writes to the file.",
        )


@contextmanager
def format_errors(context: ErrorContext, kind: str) -> Iterator[None]:
    """Translate pyarrow's errors about unreadable contents into FormatError.

    A duplicate column name gets the context, because it is an error of the file too.

    Args:
        context: The file, and the place in it.
        kind: The format as users know it, such as ``Parquet``.

    Raises:
        FormatError: The contents are not readable.
        DuplicateColumnError: Two columns have the same name.
    """
    try:
        yield
    except DuplicateColumnError as error:
        raise DuplicateColumnError(error.first, error.second, context) from None
    except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError, KeyError) as error:
        raise FormatError(context, f"this is not readable as {kind}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return the message of an error, shortened to one line of at most 200 characters."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."
