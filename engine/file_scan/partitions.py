"""The division of the files of a scan among tasks: those that read rows, and those that discover schemas.

Guarantee: the partitions together contain all files. Each byte is in exactly one partition.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from engine.file_scan.column_selection import implicit_column_finder
from engine.file_scan.declared_schema import check_declared
from engine.file_scan.file_scan import FileScan
from engine.packing import pack, task_bytes
from engine.scan.implicit_columns import FileLocation
from engine.scan.path_filter import PathFilter, accepting
from engine.scan.reader import SourceFile
from engine.scan_source import selected_directory
from engine.schema import TupleSchema
from engine.storage.listed_file import ListedFile

_THREADS = 8
_OPENING_BYTES = 64 * 1024
_EXAMINING_BYTES = 32 * 1024
_REQUESTING_BYTES = 256 * 1024
"""The costs of opening a file and of examining one, and of the requests for a file in an object store.

They are expressed as the number of bytes that could be read in the same time.
"""


def plan_partitions(
    scan: FileScan,
    schema: TupleSchema | None = None,
    *,
    is_declared: bool = False,
    path_filters: Sequence[PathFilter] = (),
) -> Sequence[Sequence[SourceFile]]:
    """Return the files and splits that each task reads. Files that the filters exclude are not opened.

    Args:
        scan: The scan.
        schema: The columns of the scan. None if there are no filters and no declared schema.
        is_declared: Whether a user has declared the schema.
        path_filters: The filters of the query. Filters on columns of the table are ignored.

    Raises:
        ScanOptionError: If the files cannot contain any column of the declared schema.
        EngineError: If a file cannot be listed or read.
    """
    columns = schema or TupleSchema()
    accepted = _filter_files(scan, path_filters, columns, is_declared=is_declared)
    files = [scan.open_later(file) for file in accepted]
    if is_declared:
        check_declared(scan, files, columns)
    cost_bytes = _cost_bytes(scan, _OPENING_BYTES)
    total_bytes = sum(file.size_bytes + cost_bytes for file in files)
    target_bytes = int(scan.options.partition_bytes or task_bytes(total_bytes))
    large = [file for file in files if file.size_bytes > target_bytes]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="splits") as pool:
        found = pool.map(lambda file: _splits(scan, file, target_bytes), large)
        of_large = {file.path: splits for file, splits in zip(large, found, strict=True)}
    of_files = (of_large.get(file.path) or _splits(scan, file, target_bytes) for file in files)
    return list(pack((one for splits in of_files for one in splits), target_bytes, cost_bytes))


def discovery_groups(scan: FileScan) -> Iterator[Sequence[tuple[int, ListedFile]]]:
    """Group the files for tasks that examine them. Return the files of each group, with their numbers."""
    files = scan.list_any_files()
    cost_bytes = _cost_bytes(scan, _EXAMINING_BYTES)
    target_bytes = task_bytes(sum(file.size_bytes + cost_bytes for file in files))
    sizes = ((one, min(one[1].size_bytes, target_bytes)) for one in enumerate(files))
    return pack(sizes, target_bytes, cost_bytes)


def _filter_files(
    scan: FileScan, path_filters: Sequence[PathFilter], schema: TupleSchema, *, is_declared: bool
) -> Sequence[ListedFile]:
    """Return the files that filters accept.

    Filters on columns of the table are ignored.
    """
    files = scan.list_any_files()
    if not path_filters:
        return files
    find_implicit = implicit_column_finder(scan, schema, [file.path for file in files], is_declared=is_declared)
    is_accepted = accepting(path_filters, find_implicit)
    directory = selected_directory(scan.source.path)
    return [file for file in files if is_accepted(FileLocation.of(file.path, directory))]


def _cost_bytes(scan: FileScan, of_local_file: int) -> int:
    """Return the cost of each file, in addition to its size."""
    return _REQUESTING_BYTES if scan.source.is_remote else of_local_file


def _splits(scan: FileScan, file: SourceFile, target_bytes: int) -> Sequence[tuple[SourceFile, int]]:
    """Return the splits of a file, each with its size in bytes."""
    format_, options = scan.find_format(file)
    splits = format_.splits(file, options, target_bytes)
    return [(one, file.size_bytes // len(splits)) for one in splits]
