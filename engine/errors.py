"""Errors of a scan, with their conditions and messages.

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
        ├── TableDirectoryError  LODGE_TABLE_DIRECTORY
        ├── PatternError         LODGE_PATTERN_TOO_COMPLEX
        ├── PatternSyntaxError   LODGE_INVALID_PATTERN
        ├── NoReaderError        LODGE_NO_READER
        ├── PartitionError       LODGE_PARTITION_NAMES
        ├── FileChangedError     LODGE_FILE_CHANGED
        └── UnreadableFileError  LODGE_UNREADABLE_FILE

:mod:`engine.readers.reader_errors` adds the errors of the formats. ``docs/reference/errors.md`` explains each condition
to users. :mod:`engine.error_report` passes an error through Spark to a client.

Guarantees:

1. A message is a single line. It describes what happened, to which object, and what to do next.
2. A message identifies a file by its workspace and its path in the workspace. It does not contain any other path of the
   machine, or the target of a link. Paths are written as Python literals, so that a file name cannot break the line.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from engine.context import ErrorContext

NOWHERE = ErrorContext()

CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "LODGE_DUPLICATE_COLUMN": "42711",
        "LODGE_FILE_CHANGED": "58030",
        "LODGE_FILE_NOT_FOUND": "42P01",
        "LODGE_INVALID_PATTERN": "42601",
        "LODGE_INVALID_VALUE": "22018",
        "LODGE_MALFORMED_FILE": "22000",
        "LODGE_MEMORY_EXCEEDED": "53200",
        "LODGE_NO_FILES": "42KD9",
        "LODGE_NO_READER": "0A000",
        "LODGE_OTHER_ENGINE": "58000",
        "LODGE_PARTITION_NAMES": "42000",
        "LODGE_PATH_REFUSED": "42501",
        "LODGE_PATTERN_TOO_COMPLEX": "54001",
        "LODGE_PROJECTION": "42000",
        "LODGE_READER_FAILED": "58000",
        "LODGE_READER_PLUGIN": "58000",
        "LODGE_ROW_TOO_LONG": "54000",
        "LODGE_SCAN_FAILED": "58000",
        "LODGE_SCAN_NOT_SIGNED": "42501",
        "LODGE_SCAN_OPTIONS": "22023",
        "LODGE_TABLE_DIRECTORY": "0A000",
        "LODGE_TYPE_CONFLICT": "42804",
        "LODGE_TYPE_NOT_SUPPORTED": "0A000",
        "LODGE_UNREADABLE_FILE": "58030",
        "LODGE_VALUE_TOO_LARGE": "54000",
    }
)
"""The SQLSTATE of each condition that a scan can report. ``tests/errors`` compares this table with the classes."""


class EngineError(Exception):
    """An error that the engine detects and raises itself.

    Attributes:
        condition: The stable name of the error.
        sql_state: The SQLSTATE of the condition.
        parameters: The objects that the error refers to, by name: ``file``, ``workspace``, ``position``, ``column`` and
            others.
    """

    condition: ClassVar[str] = "LODGE_SCAN_FAILED"
    sql_state: ClassVar[str] = "58000"

    def __init__(self, message: str, parameters: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.parameters = {name: str(value) for name, value in (parameters or {}).items() if str(value)}


def describe_cause(error: BaseException) -> str:
    """Return what happened, without the text of the error, which may contain paths of the machine."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__


def place(context: ErrorContext) -> dict[str, object]:
    """Return the parameters for the location of an error."""
    return {"file": context.path, "workspace": context.workspace, "position": context.position}


def _describe(wanted: object) -> str:
    """Return the name of a type in Spark, or a text as it is."""
    if isinstance(wanted, str):
        return wanted
    from engine.type_names import describe  # noqa: PLC0415 - options of scans are read without pyarrow

    return describe(wanted)


class ScanOptionError(EngineError):
    """Raised if an option of the data source is missing or invalid.

    Attributes:
        option: The name of the option.
    """

    condition = "LODGE_SCAN_OPTIONS"
    sql_state = "22023"

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"Option {option!r} of a scan {problem}.", {"option": option})
        self.option = option


class LoaderStateError(EngineError):
    """Raised if a result set loader is used in the wrong state. The cause is a defect of the reader."""

    condition = "LODGE_READER_FAILED"


class ProjectionError(EngineError):
    """Raised if a project list is malformed, or does not match the data or a given schema."""

    condition = "LODGE_PROJECTION"
    sql_state = "42000"


class ColumnError(EngineError):
    """Base class of errors that concern a single column.

    This class is raised directly only if the cause is a defect of the reader.

    Attributes:
        column: The name of the column, including the names of the enclosing maps, such as ``a.b``.
        context: The location of the error.
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
    """Raised if two names in the same row or map are equal when case is ignored.

    Attributes:
        first: The name that occurred first.
        second: The other name.
    """

    condition = "LODGE_DUPLICATE_COLUMN"
    sql_state = "42711"

    def __init__(self, first: str, second: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            second,
            f"exists twice: {first!r} is the same name, because case is ignored. Rename one of the columns.",
            context,
            {"firstColumn": first},
        )
        self.first = first
        self.second = second


class SchemaConflictError(ColumnError):
    """Raised if the type of a column cannot be converted to its type in the scan.

    Attributes:
        offered: The type that the reader found, with its name in Spark.
        promised: The type in the schema of the scan, with its name in Spark.
    """

    condition = "LODGE_TYPE_CONFLICT"
    sql_state = "42804"

    def __init__(self, column: str, *, offered: object, promised: object, context: ErrorContext = NOWHERE) -> None:
        self.offered, self.promised = _describe(offered), _describe(promised)
        super().__init__(
            column,
            f"is {self.offered} here, but {self.promised} in the schema of the scan. Declare a schema with a type that "
            "can represent both, or scan these files separately.",
            context,
            {"foundType": self.offered, "expectedType": self.promised},
        )

    def at(self, position: str) -> "SchemaConflictError":
        """Return the same error for another position in the file."""
        context = self.context.at(position)
        return SchemaConflictError(self.column, offered=self.offered, promised=self.promised, context=context)


class ValueConversionError(ColumnError):
    """Raised if a value cannot be converted to the type of its column.

    Attributes:
        value: The beginning of the value.
    """

    condition = "LODGE_INVALID_VALUE"
    sql_state = "22018"

    def __init__(self, column: str, value: object, wanted: object, context: ErrorContext = NOWHERE) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        wanted = _describe(wanted)
        super().__init__(
            column,
            f"must be {wanted}, but the value is {shown}. Correct the file, or declare another type.",
            context,
            {"value": shown, "expectedType": wanted},
        )
        self.value = shown


class ValueTooLargeError(ColumnError):
    """Raised if a single value exceeds the maximum size of a vector."""

    condition = "LODGE_VALUE_TOO_LARGE"
    sql_state = "54000"

    def __init__(self, column: str, size_bytes: int, limit_bytes: int, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            column,
            f"has a value of {size_bytes:,} bytes, but a batch can contain at most {limit_bytes:,} bytes of one "
            "column. Split the value.",
            context,
            {"valueBytes": size_bytes, "limitBytes": limit_bytes},
        )


class ReaderError(EngineError):
    """Raised if a reader fails unexpectedly. The original exception is chained as the cause."""

    condition = "LODGE_READER_FAILED"

    def __init__(self, problem: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(f"{context}{problem}", place(context))
        self.context = context


class FileError(EngineError):
    """Base class of errors that concern a file or directory of a workspace.

    Attributes:
        workspace: The name of the workspace.
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
    """Raised if a path does not exist."""

    condition = "LODGE_FILE_NOT_FOUND"
    sql_state = "42P01"

    def __init__(self, workspace: str, path: str) -> None:
        super().__init__(workspace, path, " does not exist. Check the name, its case, and the targets of links.")


class NoFilesError(FileError):
    """Raised if a scan has no files and no declared schema, so that its schema is unknown."""

    condition = "LODGE_NO_FILES"
    sql_state = "42KD9"

    def __init__(self, workspace: str, path: str) -> None:
        super().__init__(
            workspace, path, " contains no files, so the scan has no schema. Add a file, or declare a schema."
        )


class PartitionError(FileError):
    """Raised if the directories of a scan do not give each file the same partition columns, or the files have them."""

    condition = "LODGE_PARTITION_NAMES"
    sql_state = "42000"

    def __init__(self, workspace: str, path: str, problem: str) -> None:
        super().__init__(
            workspace,
            path,
            f" {problem}. Scan the directories separately, or set the option partitions = false.",
        )


class PathRefusedError(FileError):
    """Raised if a scan is not allowed to read a path.

    The path itself, or a link that it contains, leads to a location that no scan may read.
    """

    condition = "LODGE_PATH_REFUSED"
    sql_state = "42501"

    def __init__(self, workspace: str, path: str, reason: str) -> None:
        super().__init__(workspace, path, f" is refused: {reason}.")


class TableDirectoryError(FileError):
    """Raised if a directory belongs to a table whose log decides which files contain its rows."""

    condition = "LODGE_TABLE_DIRECTORY"
    sql_state = "0A000"

    def __init__(self, workspace: str, path: str, format_: str) -> None:
        super().__init__(
            workspace,
            path,
            f" is the directory of a {format_} table: the log of the table decides which files contain its rows. Query "
            f"the table of the catalog, or spark.read.format('{format_.lower()}'). To scan the raw files, which can "
            "contain removed rows, set the option raw_files = true.",
            {"format": format_},
        )


class PatternError(FileError):
    """Raised if a path pattern needs too much computation."""

    condition = "LODGE_PATTERN_TOO_COMPLEX"
    sql_state = "54001"

    def __init__(self, workspace: str, path: str, problem: str) -> None:
        super().__init__(workspace, path, f" as a pattern {problem}. Use fewer wildcards, or name a directory.")


class PatternSyntaxError(FileError):
    """Raised if a path does not exist, and is not a valid pattern either."""

    condition = "LODGE_INVALID_PATTERN"
    sql_state = "42601"

    def __init__(self, workspace: str, path: str, problem: str) -> None:
        super().__init__(
            workspace,
            path,
            f" does not exist, and is not a valid pattern: {problem}. A backslash before a special character selects "
            "names that contain it.",
        )


class NoReaderError(FileError):
    """Raised if there is no reader for the suffix of a file.

    Attributes:
        supported: The suffixes for which a reader exists.
    """

    condition = "LODGE_NO_READER"
    sql_state = "0A000"

    def __init__(self, workspace: str, path: str, *, others: int, supported: tuple[str, ...]) -> None:
        """Create the error.

        Args:
            workspace: The name of the workspace.
            path: The first file without a reader.
            others: The number of further files of the scan without a reader.
            supported: The suffixes for which a reader exists.
        """
        like = f", like {others} other files of the same scan," if others else ""
        super().__init__(
            workspace,
            path,
            f"{like} has no reader. Scan files whose names end in {', '.join(supported)}, or directories "
            "with only such files. Names that start with '.' or '_' and contain no '=' are ignored.",
        )
        self.supported = supported


class FileChangedError(FileError):
    """Raised if a file has changed since it was listed.

    Args:
        context: The file.
        change: How the change was noticed.
    """

    condition = "LODGE_FILE_CHANGED"
    sql_state = "58030"

    def __init__(self, context: ErrorContext, change: str) -> None:
        super().__init__(
            context.workspace,
            context.path,
            f" changed while it was scanned: {change}. Run the statement again when no process writes to the file.",
        )


class UnreadableFileError(FileError):
    """Raised if a file or directory exists, but a scan cannot read it."""

    def __init__(self, workspace: str, path: str, reason: str) -> None:
        super().__init__(
            workspace,
            path,
            f" cannot be read: {reason}. A scan requires regular files and directories that Spark's user may read.",
        )
