"""Lists and opens the files of a scan, wherever they are stored.

Guarantee: a scan reads a file only as it was listed. If the file has changed since, an error is raised. Otherwise a
scan could combine a schema, splits and rows of different contents.
"""

from collections.abc import Sequence
from typing import BinaryIO

from engine.errors import NoReaderError
from engine.scan_source import ScanSource, has_reader, supported_suffixes
from engine.storage import local, remote
from engine.storage.listed_file import ListedFile, OnProgress, ignore_progress


def list_files(
    source: ScanSource, *, any_suffix: bool = False, on_progress: OnProgress = ignore_progress, is_raw: bool = False
) -> Sequence[ListedFile]:
    """Return the files of a scan, sorted by path.

    Args:
        source: The file, directory or pattern to scan.
        any_suffix: Whether to accept files with unsupported suffixes, because an option specifies the reader.
        on_progress: Called while directories are listed.
        is_raw: Whether the files may be in the directory of a Delta, Iceberg or Hudi table.

    Raises:
        PathNotFoundError: If the path does not exist and, interpreted as a pattern, does not match any file.
        PathRefusedError: If the path, or a link below it, leads to a location that the scan may not read.
        UnreadableFileError: If a file or directory cannot be read.
        NoReaderError: If there is no reader for the suffix of a file.
        TableDirectoryError: If a file is in the directory of a table, unless ``is_raw``.
    """
    list_stored = remote.list_files if source.is_remote else local.list_files
    files = list_stored(source, on_progress=on_progress, is_raw=is_raw)
    unknown = [] if any_suffix else [file for file in files if not has_reader(file.path)]
    if unknown:
        raise NoReaderError(
            source.workspace, unknown[0].path, others=len(unknown) - 1, supported=tuple(supported_suffixes())
        )
    return files


def open_file(source: ScanSource, file: ListedFile) -> BinaryIO:
    """Open a file of the scan for reading, at its start. The stream is seekable. The caller must close it.

    Args:
        source: The scan.
        file: A file that :func:`list_files` returned, perhaps on another machine.

    Raises:
        FileChangedError: If the file has changed since it was listed.
        PathNotFoundError: If the file does not exist.
        PathRefusedError: If the path leads to a location that the scan may not read.
        UnreadableFileError: If the file cannot be read.
    """
    return remote.open_file(source, file) if source.is_remote else local.open_file(source, file)
