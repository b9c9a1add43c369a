"""What a scan raises, and how it reads.

    EngineError
    ├── ScanOptionError          an option of the data source is missing or wrong
    ├── LoaderStateError         a call to a result set loader that its state does not allow
    ├── ProjectionError          a project list, or a schema given with it, contradicts itself
    ├── ColumnError              about one column, and the place in the file if that is known
    │   ├── DuplicateColumnError     two names of one tuple differ by letter case at most
    │   ├── SchemaConflictError      a column has a type that cannot become the promised one
    │   ├── ValueConversionError     one value cannot become the column's type
    │   └── ValueTooLargeError       one value alone is larger than a vector may be
    ├── ReaderError              a reader failed in a way that it did not foresee
    └── FileError                about one file or directory of a workspace
        ├── PathNotFoundError    nothing lies at the path
        ├── NoFilesError         a scan without a schema of its own has no files to find one in
        ├── PathRefusedError     the path, or a link on it, leads to where a scan may not read
        ├── NoReaderError        no reader knows files of this suffix
        └── UnreadableFileError  it is there, but the file system does not let it be read as a file

The readers of formats have more kinds of FileError: :mod:`engine.readers.errors`.

Guarantees:

1. A message is one line: what happened, to which thing, what to do. Spark wraps it in a stack trace, and
   whoever takes it out again needs only the line that starts with the name of the class.
2. A message names files by workspace and by their path in it, never by a path of the machine, and never shows
   where a link leads. Paths stand as Python literals, so a strange file name cannot break the line.
"""

from engine.context import ErrorContext

NOWHERE = ErrorContext()


class EngineError(Exception):
    """Base of everything that the engine raises on purpose."""


class ScanOptionError(EngineError):
    """An option of the data source is missing or wrong.

    Attributes:
        option: The option's name.
    """

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"Option {option!r} of a scan {problem}.")
        self.option = option


class LoaderStateError(EngineError):
    """A call to a result set loader that its state does not allow: a mistake in the reader that calls it."""


class ProjectionError(EngineError):
    """A project list, or a schema given with it, contradicts itself."""


class ColumnError(EngineError):
    """About one column.

    Attributes:
        column: Its name, with the names of the maps around it: ``a.b``.
        context: Where it happened.
    """

    def __init__(self, column: str, problem: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(f"{context}column {column!r} {problem}")
        self.column = column
        self.context = context


class DuplicateColumnError(ColumnError):
    """Two names of one tuple differ by letter case at most.

    Attributes:
        first: The name that was there before.
        second: The other one.
    """

    def __init__(self, first: str, second: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            second,
            f"is there twice: {first!r} is the same name, because letter case does not count. Rename one of them.",
            context,
        )
        self.first = first
        self.second = second


class SchemaConflictError(ColumnError):
    """A column has a type that cannot become the promised one.

    Attributes:
        offered: What the reader found.
        promised: What the scan's schema says.
    """

    def __init__(self, column: str, *, offered: object, promised: object, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            column,
            f"is {offered} here, but {promised} in the schema of the scan. Give a schema with a type that can hold "
            "both, or scan these files apart.",
            context,
        )
        self.offered = offered
        self.promised = promised

    def at(self, position: str) -> "SchemaConflictError":
        """The same conflict, in that place of the file."""
        place = self.context.at(position)
        return SchemaConflictError(self.column, offered=self.offered, promised=self.promised, context=place)


class ValueConversionError(ColumnError):
    """One value cannot become the column's type.

    Attributes:
        value: The beginning of the value.
    """

    def __init__(self, column: str, value: object, wanted: object, context: ErrorContext = NOWHERE) -> None:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
        super().__init__(column, f"is {wanted}, and {shown} is not. Correct the file, or give another type.", context)
        self.value = shown


class ValueTooLargeError(ColumnError):
    def __init__(self, column: str, size_bytes: int, limit_bytes: int, context: ErrorContext = NOWHERE) -> None:
        super().__init__(
            column,
            f"has one value of {size_bytes:,} bytes; a batch holds at most {limit_bytes:,} of one column.",
            context,
        )


class ReaderError(EngineError):
    """A reader failed in a way that it did not foresee; the cause is chained."""

    def __init__(self, problem: str, context: ErrorContext = NOWHERE) -> None:
        super().__init__(f"{context}{problem}")
        self.context = context


class FileError(EngineError):
    """About one file or directory of a workspace.

    Attributes:
        workspace: The workspace's name.
        path: The path in the workspace.
    """

    def __init__(self, workspace: str, path: str, problem: str) -> None:
        super().__init__(f"{path!r} in workspace {workspace!r}{problem}")
        self.workspace = workspace
        self.path = path


class PathNotFoundError(FileError):
    def __init__(self, workspace: str, path: str) -> None:
        super().__init__(
            workspace, path, " does not exist. Check the name, letter case included, and where links lead."
        )


class NoFilesError(FileError):
    def __init__(self, workspace: str, path: str) -> None:
        super().__init__(
            workspace,
            path,
            " has no files, so there is no schema to find. Put a file there, or give a schema.",
        )


class PathRefusedError(FileError):
    def __init__(self, workspace: str, path: str, reason: str) -> None:
        super().__init__(workspace, path, f" is refused: {reason}.")


class NoReaderError(FileError):
    """No reader knows files of this suffix.

    Attributes:
        supported: The suffixes that have a reader.
    """

    def __init__(self, workspace: str, path: str, *, others: int, supported: tuple[str, ...]) -> None:
        """``others`` counts the further files of the same scan that have no reader either."""
        like = f", like {others} more of the same scan," if others else ""
        super().__init__(
            workspace,
            path,
            f"{like} has no reader. Scan files whose names end in {', '.join(supported)}, or directories "
            "that have no others; names that start with '.' or '_' are left out.",
        )
        self.supported = supported


class UnreadableFileError(FileError):
    def __init__(self, workspace: str, path: str, reason: str) -> None:
        super().__init__(
            workspace,
            path,
            f" cannot be read: {reason}. A scan needs regular files and directories that Spark's user may read.",
        )
