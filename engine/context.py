"""Where an error happened: what of a scan it is about, for its message.

Why it exists: a column writer that refuses a value knows its column, a reader its row, the scan its file. Each
adds what it knows, and the message names all of it.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """What is known of the place.

    Attributes:
        workspace: The workspace's name; empty if the scan is of none.
        path: The file's path in the workspace; empty before a file is opened.
        position: Where in the file, such as ``line 7`` or ``row group 2``; empty if that is not known.
    """

    workspace: str = ""
    path: str = ""
    position: str = ""

    def at(self, position: str) -> "ErrorContext":
        return replace(self, position=position)

    def __str__(self) -> str:
        """For the start of a message, such as ``'a/b.csv' in workspace 'dfs', line 7: ``; empty if nothing is known."""
        parts = []
        if self.path:
            parts.append(f"{self.path!r} in workspace {self.workspace!r}" if self.workspace else repr(self.path))
        elif self.workspace:
            parts.append(f"workspace {self.workspace!r}")
        if self.position:
            parts.append(self.position)
        return f"{', '.join(parts)}: " if parts else ""
