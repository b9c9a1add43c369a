"""The place where an error happened.

A column writer knows its column, a reader its position, the scan its file. Each adds what it knows, so that the
message names all of it.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """What is known of the place of an error.

    Attributes:
        workspace: The name of the workspace. Empty if the scan has none.
        path: The path of the file in the workspace. Empty before a file is opened.
        position: The position in the file, such as ``line 7`` or ``row group 2``. Empty if unknown.
    """

    workspace: str = ""
    path: str = ""
    position: str = ""

    def at(self, position: str) -> "ErrorContext":
        """Return the context of another position in the same file."""
        return replace(self, position=position)

    def __str__(self) -> str:
        """Return the start of a message. Empty if nothing is known.

        An example is ``'a/b.csv' in workspace 'dfs', line 7: ``.
        """
        parts = []
        if self.path:
            parts.append(f"{self.path!r} in workspace {self.workspace!r}" if self.workspace else repr(self.path))
        elif self.workspace:
            parts.append(f"workspace {self.workspace!r}")
        if self.position:
            parts.append(self.position)
        return f"{', '.join(parts)}: " if parts else ""
