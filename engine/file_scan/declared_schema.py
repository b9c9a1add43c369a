"""The check of a schema that a user declares for a scan."""

from collections.abc import Sequence

from engine.errors import ScanOptionError
from engine.file_scan.file_scan import FileScan
from engine.readers.delimited.delimited_options import DelimitedOptions
from engine.readers.delimited.header import COLUMNS
from engine.scan.implicit_columns import implicit_field
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema


def check_declared(scan: FileScan, files: Sequence[SourceFile], schema: TupleSchema) -> None:
    """Reject a schema that would make every value null because the option ``header`` is missing.

    Raises:
        ScanOptionError: If a file is text without a header, and the schema does not contain the only column of such
            files.
    """
    if schema.find(COLUMNS.name) is not None or all(implicit_field(one.name) is not None for one in schema):
        return
    for file in files:
        _, options = scan.find_format(file)
        if isinstance(options, DelimitedOptions) and not options.header:
            raise ScanOptionError(
                "schema",
                f"has no column {COLUMNS.name!r}, but {file.path!r} is read as a text file without a header, "
                "which has no other columns; add the option header = true, or the column",
            )
