"""A file whose schema conflicts with the files before it, and the position of the conflict in the file."""

from engine.errors import NOWHERE, SchemaConflictError
from engine.file_scan.file_scan import FileScan
from engine.scan.reader import LateTypeFormat
from engine.schema import TupleSchema, fold_case
from engine.schema_tracker.merging import merge_schemas
from engine.storage.listed_file import ListedFile


class FileConflictError(Exception):
    """Raised if the schema of a file conflicts with the files before it, before its position in the file is known.

    Attributes:
        error: The conflict.
        file: The file.
        others: The merged schema of the files before it.
    """

    def __init__(self, error: SchemaConflictError, file: ListedFile, others: TupleSchema) -> None:
        super().__init__(str(error))
        self.error = error
        self.file = file
        self.others = others

    def at(self, position: str) -> SchemaConflictError:
        """Return the conflict with its position in the file. The position may be empty."""
        return self.error.at(position) if position else self.error


def find_place(scan: FileScan, file: ListedFile, column: str, others: TupleSchema) -> str:
    """Return the position in a file at which a column conflicts with other files. This function may read the file.

    Args:
        scan: The scan.
        file: The file.
        column: The name of the column.
        others: The merged schema of the other files.

    Raises:
        EngineError: If the file cannot be read.
    """
    source = scan.open_later(file)
    format_, options = scan.find_format(source)
    if not isinstance(format_, LateTypeFormat):
        return "schema"
    place = format_.find_place(source, options, lambda row: _conflicts(others, row, column))
    return "" if place is None else place.position


def _conflicts(one: TupleSchema, other: TupleSchema, column: str) -> bool:
    """Return whether two schemas conflict in the given column."""
    try:
        merge_schemas((schema, NOWHERE) for schema in (one, other))
    except SchemaConflictError as conflict:
        return fold_case(conflict.column) == fold_case(column)
    return False
