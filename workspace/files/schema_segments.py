"""Remembered schemas as private files: ``.lodge/scan-schemas/<scan>/<segment>`` of the home.

The guarantees are those of :mod:`workspace.schema_segments`. A segment is written to a temporary file of the same
directory, and renamed. A process that is killed in between leaves the temporary file. :meth:`remove` removes it with
the last segment of its scan. If another process is writing at that moment, it writes its file again.
"""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import tenacity

from workspace.files.layout import Layout
from workspace.files.private_files import (
    make_private_directory,
    open_directory,
    read_private_file,
    remove_file,
    scan_directory,
    write_private_file,
)
from workspace.files.roots import home_of
from workspace.schema_segments import ListedSegment, ScanKey, Segment, parse_segment

_TEMPORARY = ".temporary-"
_ATTEMPTS = 10
"""How often a segment is written. An attempt fails only if the last segment of the scan is removed at the same time."""


class FileSchemaSegments:
    """The segments of a Lodge installation with a directory as its default temporary workspace.

    Args:
        root: A root of the installation. The segments are in its home.
    """

    def __init__(self, root: Path) -> None:
        self._directory = Layout(home_of(root)).scan_schemas

    def list(self, scan: ScanKey | None = None) -> Sequence[ListedSegment]:
        """Return the segments of a scan, or all segments."""
        return [found for name in self._scans(scan) for found in self._list(name)]

    def read(self, segment: Segment) -> bytes | None:
        """Return the content of a segment, or None if it was removed."""
        try:
            with open_directory(self._directory) as parent, open_directory(segment.scan, parent) as directory:
                return read_private_file(segment.name, directory)
        except FileNotFoundError:
            return None

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(FileNotFoundError),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    def write(self, segment: Segment, content: bytes) -> None:
        """Write a new segment."""
        make_private_directory(self._directory)
        make_private_directory(self._directory / segment.scan)
        temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
        with open_directory(self._directory / segment.scan) as directory:
            try:
                write_private_file(temporary, content, directory)
                os.rename(temporary, segment.name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:  # the disk may be full
                remove_file(temporary, directory)
                raise

    def remove(self, segments: Sequence[Segment]) -> None:
        """Remove segments, and the directories of scans without segments."""
        for scan in {segment.scan for segment in segments}:
            with (
                suppress(FileNotFoundError),
                open_directory(self._directory) as parent,
                open_directory(scan, parent) as directory,
            ):
                for segment in segments:
                    if segment.scan == scan:
                        remove_file(segment.name, directory)
                names = [entry.name for entry in scan_directory(directory)]
                if all(name.startswith(_TEMPORARY) for name in names):
                    for name in names:
                        remove_file(name, directory)
                    with suppress(OSError):  # another gateway has just written a segment
                        os.rmdir(scan, dir_fd=parent)

    def _scans(self, scan: ScanKey | None) -> Sequence[str]:
        if scan is not None:
            return [scan]
        try:
            with open_directory(self._directory) as directory:
                return [entry.name for entry in scan_directory(directory)]
        except FileNotFoundError:
            return []

    def _list(self, scan: str) -> Iterator[ListedSegment]:
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            open_directory(self._directory) as parent,
            open_directory(scan, parent) as directory,
        ):
            for entry in scan_directory(directory):
                segment = parse_segment(scan, entry.name)
                if segment is not None:
                    with suppress(FileNotFoundError):
                        yield ListedSegment(segment, entry.stat(follow_symlinks=False).st_size)
