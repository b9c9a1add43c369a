"""Errors of the file formats, and the conversion of pyarrow's errors to these errors.

FileError
└── FormatError             LODGE_MALFORMED_FILE
    ├── UnsupportedTypeError    LODGE_TYPE_NOT_SUPPORTED
    ├── MemoryLimitError    LODGE_MEMORY_EXCEEDED
    └── RowTooLongError     LODGE_ROW_TOO_LONG
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, FileError, describe_cause
from engine.spark_type import find_unreadable


class FormatError(FileError):
    """Raised if the contents of a file do not match the format of the file.

    Attributes:
        position: The position of the error, such as ``line 7`` or ``row group 2``. Empty if the error concerns the
            whole file.
    """

    condition = "LODGE_MALFORMED_FILE"
    sql_state = "22000"

    def __init__(self, context: ErrorContext, problem: str) -> None:
        place = f", {context.position}" if context.position else ""
        super().__init__(context.workspace, context.path, f"{place}: {problem}.", {"position": context.position})
        self.position = context.position


class UnsupportedTypeError(FormatError):
    """Raised if a scan needs a column with a type that it cannot read. It would read another type instead."""

    condition = "LODGE_TYPE_NOT_SUPPORTED"
    sql_state = "0A000"

    def __init__(self, context: ErrorContext, column: str, type_: str, kind: str) -> None:
        super().__init__(
            context,
            f"column {column!r} has the {kind} type {type_}, which scans cannot read. Name other columns in place of "
            f"[*], or read the file with spark.read.{kind.lower()}",
        )
        self.parameters |= {"column": column, "foundType": type_}


def check_readable(column: pa.Field, context: ErrorContext) -> None:
    """Check that a scan can read a column.

    Args:
        column: The column with its type in a file.
        context: The file.

    Raises:
        UnsupportedTypeError: If the column has, or contains, a type that scans do not have.
    """
    unreadable = find_unreadable(column.type)
    if unreadable is not None:
        raise UnsupportedTypeError(context, column.name, unreadable.name, unreadable.kind)


class RowTooLongError(FormatError):
    """Raised if a row or value is longer than the limit that bounds the reader's memory."""

    condition = "LODGE_ROW_TOO_LONG"
    sql_state = "54000"

    def __init__(self, context: ErrorContext, limit_bytes: int, advice: str) -> None:
        super().__init__(context, f"it is longer than {limit_bytes:,} bytes (option 'max_line_bytes'); {advice}")
        self.limit_bytes = limit_bytes


class MemoryLimitError(FormatError):
    """Raised if a part of a file needs more memory than a task may use."""

    condition = "LODGE_MEMORY_EXCEEDED"
    sql_state = "53200"

    def __init__(self, context: ErrorContext) -> None:
        super().__init__(
            context,
            "the values need more memory than a task may use. Write the file with smaller parts, or exclude it from "
            "the scan",
        )


@contextmanager
def format_errors(context: ErrorContext, kind: str) -> Iterator[None]:
    """Convert pyarrow's errors about unreadable contents to FormatError.

    A ``DuplicateColumnError`` is raised again with the context, because it is also an error of the file.

    Args:
        context: The file, and the position in the file.
        kind: The name of the format for error messages, such as ``Parquet``.

    Raises:
        FormatError: If the contents cannot be read.
        MemoryLimitError: If the contents need too much memory.
        DuplicateColumnError: If two columns have the same name.
    """
    try:
        yield
    except DuplicateColumnError as error:
        raise DuplicateColumnError(error.first, error.second, context) from None
    except MemoryError as error:
        raise MemoryLimitError(context) from error
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        raise FormatError(context, f"this is not readable as {kind}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return the message of an error, shortened to one line of at most 200 characters.

    The message of a system call may contain paths of the machine, so it is replaced by the text of its error number.
    """
    is_system_error = isinstance(error, OSError) and error.errno
    text = describe_cause(error) if is_system_error else " ".join(str(error).split()).rstrip(".")
    text = text or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."
