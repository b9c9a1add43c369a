"""What a scan raises, and how it reads.

    EngineError
    ├── ScanOptionError          an option of the data source is missing or wrong
    └── FileError                about one file or directory of a workspace
        ├── PathNotFoundError    nothing lies at the path
        ├── PathRefusedError     the path, or a link on it, leads to where a scan may not read
        ├── NoReaderError        no reader knows files of this suffix
        ├── UnreadableFileError  it is there, but the file system does not let it be read as a file
        └── TextFormatError      the contents are not what the text reader reads

Guarantees:

1. A message is one line: what happened, to which thing, what to do. Spark wraps it in a stack trace, and
   whoever takes it out again needs only the line that starts with the name of the class.
2. A message names files by workspace and by their path in it, never by a path of the machine, and never shows
   where a link leads. Paths stand as Python literals, so a strange file name cannot break the line.
"""


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


class TextFormatError(FileError):
    """The contents are not what the text reader reads.

    Attributes:
        line: Counted from 1 by the line feeds in the file. For a row of several lines, its first.
    """

    def __init__(self, workspace: str, path: str, line: int, problem: str) -> None:
        super().__init__(workspace, path, f", line {line}: {problem}.")
        self.line = line
