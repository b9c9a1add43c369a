"""The readers, and the choice among them by suffix.

A reader gets an open file and yields its rows as Arrow record batches of the scan's schema. It knows nothing
of workspaces' rules, links or Spark.
"""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from engine.errors import UnreadableFileError
from engine.readers.text import TextReader
from engine.source import TEXT_DELIMITERS, suffix_of


def read_batches(file: BinaryIO, *, workspace: str, path: str) -> Iterator[pa.RecordBatch]:
    """Reads an open file to its end with the reader of its suffix.

    Args:
        file: At its start, buffered.
        workspace: The workspace's name, for messages.
        path: The file's path in the workspace, for messages and the choice; its suffix must have a reader.

    Raises:
        UnreadableFileError: The storage failed in the middle of the file.
        TextFormatError: The contents are not what the reader reads.
    """
    reader = TextReader(file, delimiter=TEXT_DELIMITERS[suffix_of(path)], workspace=workspace, path=path)
    try:
        yield from reader.batches()
    except OSError as error:
        raise UnreadableFileError(workspace, path, error.strerror or type(error).__name__) from None
