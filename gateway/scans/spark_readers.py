"""Decides which files of a planned scan Spark reads with its own reader, and builds the relation that does so.

Spark's vectorised readers of Parquet and ORC are faster than a Python data source, and Spark pushes projections,
filters and aggregates down to them. They read a file only if the result is the same as that of the engine.

Guarantees:

1. Spark reads a file only if its schema was examined, all columns that the statement needs are marked
   (:mod:`engine.readers.columnar.spark_marks`), and each of them has the type and the spelling of the scan's schema,
   or does not exist in the file.
2. Spark reads only files that nobody but the owner of the workspace can replace
   (:mod:`engine.storage.protected_files`), and whose paths Spark does not interpret as a pattern or as hidden.
3. If Spark lists a file with another size or modification time than the gateway, the statement fails. The check is a
   filter on the columns ``_metadata`` of Spark.
4. A plan contains at most ``MAX_FILES`` paths. The engine reads the files of larger scans.
5. If a scan has files of several formats, Spark reads the files of only one of them.
6. Spark reads a file only if no checksum file of Hadoop beside it is out of date. Spark would refuse such a file.
7. Filters on floating-point columns are not pushed down. Spark would skip rows by statistics that do not include NaN,
   or that distinguish -0.0 from 0.0.
8. The engine reads all files if a scan, or a struct in it, has two names that only some comparisons of Spark
   distinguish, such as ``s`` and the long s. Spark would take one for the other when it leaves out columns.

Not guaranteed:

- Spark checks a file when it lists the files, and not again when it opens them. Modification times are compared in
  milliseconds, and a file is not compared by its path.
- Spark does not check that text is valid UTF-8.
"""

import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import xor
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.types as pt
from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from engine.arrow_types import inner_fields
from engine.discovery import decode_schema
from engine.file_scan.file_scan import FileScan
from engine.readers.columnar import spark_orc, spark_parquet
from engine.readers.columnar.spark_marks import is_marked
from engine.scan_source import mentioned_form
from engine.schema import TupleSchema, fold_case, is_implicit
from engine.spark_schema import to_spark_schema
from engine.storage.listed_file import ListedFile
from engine.storage.protected_files import ProtectedFiles
from gateway.scans.expressions import Expression, alias, attribute, call, int_literal, long_literal, text_literal
from gateway.scans.path_columns import PathColumns, has_same_path_columns
from gateway.scans.single_use import is_executed_once
from gateway.sql.name_syntax import quote_name

MAX_FILES: Final = 1000
"""The maximum number of files that Spark reads with its own reader in one scan."""

MIN_FILE_BYTES: Final = 1024 * 1024
"""The minimum size of such a file, if the scan has more than ``FEW_FILES``, or the engine has to read other files."""

FEW_FILES: Final = 32
"""The number of paths above which Spark lists them in a job. The engine then reads small files faster."""

FORMATS: Final = (spark_parquet.FORMAT, spark_orc.FORMAT)
"""The formats that Spark reads. The suffix of a file is the name of its format."""

_PLAIN_PATH: Final = re.compile(r"[0-9A-Za-z_./=-]+")
_IGNORED_NAMES: Final = re.compile(r"[._]")
_METADATA: Final = "_metadata"
_REVEALING: Final = (b"_metadata", b"input_file_", b"identifier")
"""Parts of names with which a statement can see which reader reads a file. IDENTIFIER(...) can compose such names."""

_OPTIONS: Final = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "orc.force.positional.evolution": "false",
}

_SIZE_SHIFTS: Final = (21, 45)
"""Where the size of a file is in its number. A size with other low bits changes bits of years in the time."""

_CHECKSUM_HEADER_BYTES: Final = 8
_CHECKSUM_BYTES: Final = 4
_BYTES_PER_CHECKSUM: Final = 512


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The files of a scan by reader.

    Attributes:
        format: The format of the files that Spark reads.
        paths: The columns of the path.
        of_spark: The files that Spark reads.
        of_engine: The files that the engine reads.
        rebase_modes: The options of Spark for the calendar of old dates and times.
    """

    format: str
    paths: PathColumns
    of_spark: Sequence[ListedFile]
    of_engine: Sequence[ListedFile]
    rebase_modes: Mapping[str, str] = field(default_factory=dict)


def may_replace_scans(message: Message) -> bool:
    """Return whether Spark may read files of a message's scans.

    This is the case for queries, analyses and writes of a DataFrame. A view or a SQL command can use the scan later,
    when the files have changed. A client could also send a replaced scan back.
    """
    if not is_executed_once(message) and not isinstance(message, base_pb2.AnalyzePlanRequest):
        return False
    if isinstance(message, base_pb2.AnalyzePlanRequest) and message.HasField("input_files"):
        return False
    encoded = message.SerializeToString().lower()
    return not any(name in encoded for name in _REVEALING)


def split_files(
    scan: FileScan,
    selected: TupleSchema,
    files: Sequence[ListedFile],
    schemas: Sequence[bytes],
    formats: Collection[str] = FORMATS,
) -> FileSplit | None:
    """Return the files that Spark and the engine read. None if the engine reads all files.

    Args:
        scan: The scan.
        selected: The columns that the statement needs.
        files: All files of the scan.
        schemas: The encoded schemas of the files.
        formats: The formats that Spark may read.
    """
    format_ = _choose_format(scan, files, formats)
    of_path = [one for one in selected if is_implicit(one)]
    of_files = TupleSchema(one for one in selected if not is_implicit(one))
    if format_ is None or not len(selected) or len(schemas) != len(files) or not all(map(_may_be_read, of_files)):
        return None
    if has_similar_names(selected):
        return None
    eligible = _find_eligible(of_files, files, schemas, format_)
    if not 0 < len(eligible) <= MAX_FILES or not has_same_path_columns(scan, eligible, of_path):
        return None
    protected = ProtectedFiles(scan.source)
    if _PLAIN_PATH.fullmatch(str(protected.root)) is None or protected.root == Path("/"):
        return None
    of_spark = [file for file in eligible if protected.contains(file) and _may_verify(protected.root, file)]
    chosen = {file.path for file in of_spark}
    of_engine = [file for file in files if file.path not in chosen]
    paths = PathColumns.of(scan, str(protected.root), format_, of_path)
    modes = {"datetimeRebaseMode": scan.options.datetime_rebase, "int96RebaseMode": scan.options.int96_rebase}
    of_session = {option: mode.upper() for option, mode in modes.items()}
    return FileSplit(format_, paths, of_spark, of_engine, of_session) if of_spark else None


def _choose_format(scan: FileScan, files: Sequence[ListedFile], formats: Collection[str]) -> str | None:
    """Return the format of the files that Spark may read. None if the engine reads all files."""
    found = next((one for one in FORMATS if any(file.path.endswith(f".{one}") for file in files)), None)
    is_possible = not scan.source.is_remote and scan.options.format in (None, found)
    return found if is_possible and found in formats else None


def _may_be_read(column: pa.Field) -> bool:
    """Return whether Spark's readers know the type of a column, and do not have a column of their own for its name."""
    return _has_spark_type(column.type) and fold_case(column.name) != _METADATA


def has_similar_names(fields: Iterable[pa.Field]) -> bool:
    """Return whether Spark may take two columns, or two members of the same struct, for the same."""
    given = list(fields)
    if len({mentioned_form(field.name) for field in given}) < len(given):
        return True
    return any(has_similar_names(inner_fields(field.type)) for field in given)


def _find_eligible(
    columns: TupleSchema, files: Sequence[ListedFile], schemas: Sequence[bytes], format_: str
) -> Sequence[ListedFile]:
    """Return the files that Spark reads as the engine does, and in which it is faster."""
    is_same = {schema: reads_same(columns, decode_schema(schema), format_) for schema in set(schemas)}
    eligible = [
        file
        for file, schema in zip(files, schemas, strict=True)
        if is_same[schema] and file.is_settled and _has_plain_name(file, format_)
    ]
    if len(eligible) < len(files) or len(files) > FEW_FILES:
        eligible = [file for file in eligible if file.size_bytes >= MIN_FILE_BYTES]
    return eligible


def reads_same(selected: TupleSchema, file: TupleSchema, format_: str) -> bool:
    """Return whether Spark's reader returns the same values as the engine.

    Args:
        selected: The columns of files that the statement needs, with their types in the scan.
        file: The schema of the file.
        format_: The format of the file.
    """
    for column in selected:
        found = file.find(column.name)
        if found is not None and not (
            found.name == column.name and found.type.equals(column.type) and is_marked(found.metadata, format_)
        ):
            return False
    return True


def build_relation(
    split: FileSplit, workspace: str, columns: TupleSchema, engine: relations_pb2.Relation | None
) -> relations_pb2.Relation:
    """Return the relation that reads the files of a split.

    Args:
        split: The files.
        workspace: The name of the workspace.
        columns: The columns of the scan.
        engine: The relation with which the engine reads its files. None if it reads none.
    """
    found = relations_pb2.Relation()
    projected = found if engine is None else found.set_op.left_input
    for column in columns:
        projected.project.expressions.append(_project(column, split.paths))
    checked = projected.project.input.filter
    checked.condition.CopyFrom(_unchanged(split, workspace))
    source = checked.input.read.data_source
    source.format = split.format
    source.schema = to_spark_schema(TupleSchema(one for one in columns if split.paths.is_read(one))).json()
    source.paths.extend(map(split.paths.path, split.of_spark))
    source.options.update({**_OPTIONS, **split.rebase_modes, **split.paths.options})
    if engine is not None:
        found.set_op.right_input.CopyFrom(engine)
        found.set_op.set_op_type = relations_pb2.SetOperation.SET_OP_TYPE_UNION
        found.set_op.is_all = True
    return found


def _has_spark_type(type_: pa.DataType) -> bool:
    if pt.is_nested(type_):
        is_known = pt.is_struct(type_) or pt.is_list(type_) or pt.is_map(type_)
        return is_known and all(_has_spark_type(field.type) for field in inner_fields(type_))
    return bool(
        pt.is_boolean(type_)
        or pt.is_signed_integer(type_)
        or type_ in (pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32())
        or pt.is_timestamp(type_)
        or pt.is_decimal128(type_)
    )


def _has_plain_name(file: ListedFile, format_: str) -> bool:
    """Return whether Spark opens the file under exactly this path."""
    name = file.path.rpartition("/")[2]
    is_plain = _PLAIN_PATH.fullmatch(file.path) is not None and _IGNORED_NAMES.match(name) is None
    return is_plain and name.endswith(f".{format_}")


def _may_verify(root: Path, file: ListedFile) -> bool:
    """Return whether Spark can open the file although it verifies checksums.

    Hadoop writes the checksums of a local file ``a`` to ``.a.crc``. They are out of date if another program has
    replaced the file since: the checksums are then older, or there is another number of them.
    """
    directory, _, name = file.path.rpartition("/")
    try:
        status = os.lstat(root / directory / f".{name}.crc")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    size_bytes = _CHECKSUM_HEADER_BYTES + _CHECKSUM_BYTES * -(-file.size_bytes // _BYTES_PER_CHECKSUM)
    is_current = status.st_size == size_bytes and status.st_mtime_ns >= int(file.version)
    return is_current and stat.S_ISREG(status.st_mode)


def _project(column: pa.Field, paths: PathColumns) -> Expression:
    """Return the expression of a column.

    The function ``nanvl`` does not change a floating-point column, but Spark does not push filters through it.
    """
    if is_implicit(column):
        metadata = to_spark_schema(TupleSchema([column]))[0].metadata
        return alias(paths.expression(column), column.name, json.dumps(metadata))
    found = attribute(quote_name(column.name))
    return alias(call("nanvl", found, found), column.name) if pt.is_floating(column.type) else found


def _unchanged(split: FileSplit, workspace: str) -> Expression:
    """Return a condition that is true for listed files, and otherwise fails.

    Each file has a number that is made from its size and its modification time. Spark evaluates the condition for each
    file before it starts the tasks, and for each row. Therefore the condition contains no text and no division.
    """
    modified = call("unix_micros", attribute("_metadata.file_modification_time"))
    size = attribute("_metadata.file_size")
    number = reduce(partial(call, "^"), (call("shiftleft", size, int_literal(by)) for by in _SIZE_SHIFTS), modified)
    planned = sorted({_number(file) for file in split.of_spark})
    text = call(
        "concat",
        text_literal("[LODGE_FILE_CHANGED] '"),
        split.paths.in_workspace(),
        text_literal(
            f"' in workspace '{workspace}' changed while it was scanned: it was modified. Run the statement again when "
            "no process writes to the file."
        ),
    )
    return call("or", call("in", number, *map(long_literal, planned)), call("raise_error", text))


def _number(file: ListedFile) -> int:
    """Return the number that Spark computes for a file, as a signed 64-bit integer."""
    microseconds = int(file.version) // 1_000_000 * 1000
    number = reduce(xor, (file.size_bytes << by for by in _SIZE_SHIFTS), microseconds) % 2**64
    return number - 2**64 if number >= 2**63 else number
