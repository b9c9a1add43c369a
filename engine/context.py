"""The location at which an error occurred.

A column writer adds the column to an error, a reader adds the position, and the scan adds the file. The error message
then contains the complete location.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """The known parts of the location at which an error occurred.

    Attributes:
        workspace: The name of the workspace. Empty if the scan does not have a workspace.
        path: The path of the file in the workspace. Empty if no file has been opened yet.
        position: The position in the file, such as ``line 7`` or ``row group 2``. Empty if it is unknown.
    """

    workspace: str = ""
    path: str = ""
    position: str = ""

    def at(self, position: str) -> "ErrorContext":
        """Return the context for another position in the same file."""
        return ErrorContext(self.workspace, self.path, position)

    def __str__(self) -> str:
        """Return the beginning of an error message, or an empty string if nothing is known.

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
