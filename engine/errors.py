"""The errors of a scan, their conditions and their messages.

    EngineError                  LODGE_SCAN_FAILED
    ├── ScanOptionError          LODGE_SCAN_OPTIONS
    ├── LoaderStateError         LODGE_READER_FAILED
    ├── ReaderError              LODGE_READER_FAILED
    ├── ProjectionError          LODGE_PROJECTION
    ├── ColumnError              LODGE_READER_FAILED
    │   ├── DuplicateColumnError     LODGE_DUPLICATE_COLUMN
    │   ├── SchemaConflictError      LODGE_TYPE_CONFLICT
    │   ├── ValueConversionError     LODGE_INVALID_VALUE
    │   └── ValueTooLargeError       LODGE_VALUE_TOO_LARGE
    └── FileError                LODGE_UNREADABLE_FILE
        ├── PathNotFoundError    LODGE_FILE_NOT_FOUND
        ├── NoFilesError         LODGE_NO_FILES
        ├── PathRefusedError     LODGE_PATH_REFUSED
        ├── NoReaderError        LODGE_NO_READER
        └── UnreadableFileError  LODGE_UNREADABLE_FILE

:mod:`engine.readers.errors` adds the errors of the formats. ``docs/reference/errors.md`` explains each condition to
users. :mod:`engine.error_report` carries an error through Spark to a client.

Guarantees:

1. A message is one line. It says what happened, to which object, and what to do next.
2. A message names a file by its workspace and its path in the workspace. It shows no other path of the machine, and
   never the target of a link. Paths are written as Python literals, so a strange file name cannot break the line.
"""

from collections.abc import Mapping
from typing import ClassVar

from engine.context import ErrorContext

NOWHERE = ErrorContext()


class EngineError(Exception):
    """An error that the engine raises on purpose.

    Attributes:
        condition: The stable name of the error.
        sql_state: The SQLSTATE of the condition.
        parameters: What the error is about, by name: ``file``, ``workspace``, ``position``, ``column`` and others.
    """

    condition: ClassVar[str] = "LODGE_SCAN_FAILED"
    sql_state: ClassVar[str] = "58000"

    def __init__(self, message: str, parameters: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.parameters = {name: str(value) for name, value in (parameters or {}).items() if str(value)}


def place(context: ErrorContext) -> dict[str, object]:
    """Return the parameters that say where an error happened."""
    return {"file": context.path, "workspace": context.workspace, "position": context.position}


class ScanOptionError(EngineError):
    """A missing or invalid option of the data source.

    Attributes:
        option: The option's name.
    """

    condition = "LODGE_SCAN_OPTIONS"
    sql_state = "22023"

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"Option {option!r} of a scan {problem}.", {"option": option})
        self.option = option


class LoaderStateError(EngineError):
    """A call to a result set loader that its state does not allow: a defect of the reader."""

    condition = "LODGE_READER_FAILED"


class ProjectionError(EngineError):
    """A project list, or a schema given with it, that contradicts itself."""

    condition = "LODGE_PROJECTION"
    sql_state = "42000"


class ColumnError(EngineError):
    """An error about one column. The class itself stands for a defect of the reader.

    Attributes:
        column: The column's name, with the names of the maps around it: ``a.b``.
        context: Where it happened.
    """

    condition = "LODGE_READER_FAILED"

    def __init__(
        self, column: str, problem: str, context: ErrorContext = NOWHERE, parameters: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(
            f"{context}column {column!r} {problem}", {**place(context), "column": column, **(parameters or {})}
        )
        self.column = column
        self.context = context


class DuplicateColumnError(ColumnError):
    """Two names of one tuple that differ at most by letter case.

    Attributes:
        first: The name that came first.
        second: The other name.
    """

    condition = "LODGE_DUPLICATE_COLUMN"
    sql_state = "42711"

    def __init__(self, first: str, second: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            second,
            f"exists twice: {first!r} is the same name, because letter case does not count. Rename one of them.",
            context,
            {"firstColumn": first},
        )
        self.first = first
        self.second = second


class SchemaConflictError(ColumnError):
    """A column whose type cannot be converted to the type of the scan.

    Attributes:
        offered: The type that the reader found.
        promised: The type in the scan's schema.
    """

    condition = "LODGE_TYPE_CONFLICT"
    sql_state = "42804"

    def __init__(self, column: str, *, offered: object, promised: object, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            column,
            f"is {offered} here, but {promised} in the schema of the scan. Declare a schema with a type that can hold "
            "both, or scan these files separately.",
            context,
            {"foundType": offered, "expectedType": promised},
        )
        self.offered = offered
        self.promised = promised

    def at(self, position: str) -> "SchemaConflictError":
        """Return the same conflict at another position in the file."""
        context = self.context.at(position)
        return SchemaConflictError(self.column, offered=self.offered, promised=self.promised, context=context)


class ValueConversionError(ColumnError):
    """A value that cannot be converted to the column's type.

    Attributes:
        value: The beginning of the value.
    """

    condition = "LODGE_INVALID_VALUE"
    sql_state = "22018"

    def __init__(self, column: str, value: object, wanted: object, context: ErrorContext = NOWHERE) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        super().__init__(
            column,
            f"is {wanted}, and {shown} is not. Correct the file, or declare another type.",
            context,
            {"value": shown, "expectedType": wanted},
        )
        self.value = shown


class ValueTooLargeError(ColumnError):
    """A single value that is larger than a vector may be."""

    condition = "LODGE_VALUE_TOO_LARGE"
    sql_state = "54000"

    def __init__(self, column: str, size_bytes: int, limit_bytes: int, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            column,
            f"has one value of {size_bytes:,} bytes; a batch holds at most {limit_bytes:,} of one column.",
            context,
            {"valueBytes": size_bytes, "limitBytes": limit_bytes},
        )


class ReaderError(EngineError):
    """An unforeseen failure of a reader. The cause is chained."""

    condition = "LODGE_READER_FAILED"

    def __init__(self, problem: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(f"{context}{problem}", place(context))
        self.context = context


class FileError(EngineError):
    """An error about one file or directory of a workspace.

    Attributes:
        workspace: The workspace's name.
        path: The path in the workspace.
    """

    condition = "LODGE_UNREADABLE_FILE"
    sql_state = "58030"

    def __init__(self, workspace: str, path: str, problem: str, parameters: Mapping[str, object] | None = None) -> None:
        super().__init__(
            f"{path!r} in workspace {workspace!r}{problem}",
            {"file": path, "workspace": workspace, **(parameters or {})},
        )
        self.workspace = workspace
        self.path = path


class PathNotFoundError(FileError):
    """A path without a file or directory."""

    condition = "LODGE_FILE_NOT_FOUND"
    sql_state = "42P01"

    def __init__(self, workspace: str, path: str) -> None:
        super().__init__(
            workspace, path, " does not exist. Check the name, including its letter case and the targets of links."
        )


class NoFilesError(FileError):
    """A scan without a declared schema that finds no file to take a schema from."""

    condition = "LODGE_NO_FILES"
    sql_state = "42KD9"

    def __init__(self, workspace: str, path: str) -> None:
        super().__init__(workspace, path, " has no files, so the scan has no schema. Add a file, or declare a schema.")


class PathRefusedError(FileError):
    """A path that is, or leads through a link to, a place that no scan may read."""

    condition = "LODGE_PATH_REFUSED"
    sql_state = "42501"

    def __init__(self, workspace: str, path: str, reason: str) -> None:
        super().__init__(workspace, path, f" is refused: {reason}.")


class NoReaderError(FileError):
    """A file whose suffix has no reader.

    Attributes:
        supported: The suffixes that have a reader.
    """

    condition = "LODGE_NO_READER"
    sql_state = "0A000"

    def __init__(self, workspace: str, path: str, *, others: int, supported: tuple[str, ...]) -> None:
        """Create the error.

        Args:
            workspace: The workspace's name.
            path: The first file without a reader.
            others: How many more files of the scan have no reader.
            supported: The suffixes that have a reader.
        """
        like = f", like {others} more of the same scan," if others else ""
        super().__init__(
            workspace,
            path,
            f"{like} has no reader. Scan files whose names end in {', '.join(supported)}, or directories "
            "with only such files. Names that start with '.' or '_' are ignored.",
        )
        self.supported = supported


class UnreadableFileError(FileError):
    """An existing file or directory that the file system does not let a scan read."""

    def __init__(self, workspace: str, path: str, reason: str) -> None:
        super().__init__(
            workspace,
            path,
            f" cannot be read: {reason}. A scan needs regular files and directories that Spark's user may read.",
        )
