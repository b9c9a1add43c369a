"""Which names below a directory belong to the rows of a scan: Spark's rule, and the marks of table formats.

| name | is |
| --- | --- |
| begins with ``.`` | hidden |
| begins with ``_``, and contains no ``=`` | hidden: a marker such as ``_SUCCESS``, a summary, a directory of a writer |
| begins with ``_``, and contains ``=`` | data, for example the directory ``_region=eu`` of a partition |
| ends with ``._COPYING_`` | a file that ``hdfs dfs -put`` has not finished |
| the directory ``_delta_log`` or ``.hoodie``, or a file ``metadata/….metadata.json`` | the mark of a table |

The files of a Delta, Iceberg or Hudi table are its rows only if the log of the table says so: after a change, removed
rows are still in the files. Therefore :class:`engine.errors.TableDirectoryError` refuses the directory of a table, also
if a scan reaches it through a parent, a pattern or a subdirectory. A single file can be scanned.

Source: [spark-partitioning], ``HadoopFSUtils.shouldFilterOutPathName`` and ``isDataPath``.
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from engine.errors import TableDirectoryError
from engine.scan_source import ScanSource
from engine.storage.listed_file import ListedFile

MARKING_DIRECTORIES: Final[Mapping[str, str]] = {"_delta_log": "Delta", ".hoodie": "Hudi"}
"""The directories that a table of a format has, and the name of the format."""

ICEBERG: Final = "Iceberg"
ICEBERG_METADATA: Final = "metadata"
"""The directory that an Iceberg table has. It contains files whose names end with ``.metadata.json``."""

_METADATA_FILE = ".metadata.json"


def is_hidden(name: str) -> bool:
    """Return whether scans ignore files and directories with a name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def may_mark_table(name: str) -> bool:
    """Return whether a name can be part of the mark of a table. See :meth:`FoundTables.note`."""
    return name in MARKING_DIRECTORIES or name.endswith(_METADATA_FILE)


class FoundTables:
    """The tables of other formats that a listing has found.

    Args:
        source: The scan.
    """

    def __init__(self, source: ScanSource) -> None:
        self._source = source
        self._formats: dict[str, str] = {}

    def note(self, names: list[str]) -> None:
        """Note the directory of a table if a path below the root of the workspace marks one.

        Args:
            names: The names of the path.
        """
        for position, name in enumerate(names):
            if name in MARKING_DIRECTORIES:
                self._formats["/".join(names[:position]) or "."] = MARKING_DIRECTORIES[name]
                return
        if names[-2:-1] == [ICEBERG_METADATA] and names[-1].endswith(_METADATA_FILE):
            self._formats["/".join(names[:-2]) or "."] = ICEBERG

    def refuse(self, files: Iterable[ListedFile]) -> None:
        """Check that no file is in the directory of a table.

        Raises:
            TableDirectoryError: If a file is in such a directory.
        """
        if not self._formats:
            return
        for file in files:
            for directory in map(str, PurePosixPath(file.path).parents):
                if directory in self._formats:
                    raise TableDirectoryError(self._source.workspace, directory, self._formats[directory])
