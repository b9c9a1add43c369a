"""How many files the filters of a statement exclude, for ``EXPLAIN``.

The gateway asks with the option ``task`` of a scan. Spark pushes the filters down while it optimizes the statement, and
does not read the scan. The answer is an error, because a data source can send nothing else to the gateway while Spark
optimizes a statement. If Spark pushes no filters down, there is no answer.
"""

from collections.abc import Sequence
from typing import Final

from engine.errors import EngineError
from engine.storage.listed_file import ListedFile

COUNT_PRUNED: Final = "count_pruned"
"""The value of the option ``task``."""

FILES: Final = "files"
"""The parameter of the answer with the number of files that the filters exclude."""

BYTES: Final = "bytes"
"""The parameter of the answer with the size of these files."""


class PrunedFilesReport(EngineError):  # noqa: N818 - it is an answer, not a failure
    """Raised to send the number of files that filters exclude."""

    condition = "LODGE_FILES_PRUNED"
    sql_state = "01000"

    def __init__(self, pruned: Sequence[ListedFile]) -> None:
        size_bytes = sum(file.size_bytes for file in pruned)
        super().__init__("The scan was only explained.", {FILES: len(pruned), BYTES: size_bytes})
