"""Tables from blocks of JSON objects.

First, pyarrow parses each block with the names and types that are known so far, and rejects unknown names. If pyarrow
rejects a block, the parser infers the new names and types from parts of the block, and parses the block again. If
pyarrow still rejects the block, Python's parser reads it. Python's parser either finds the line and column of the
error, or determines that the block is valid.

Guarantees:

1. Both parsers return the same rows. The names and types that are known for a file are only extended.
2. Two names of one tuple that are equal when case is ignored raise a DuplicateColumnError that contains both names.
3. Columns that contain only nulls so far are LATE.
4. A conflict of types or names is reported together with its line.
5. Memory use is bounded even if each row, or each object in an array, has different names. At most ``MAX_CELLS``
   cells are parsed at once, unless a single row has more values. A file with more than ``max_columns`` names raises a
   FormatError, and so does a row with more cells of which nearly all are empty.
6. If a scan reads only some columns, the other columns are not parsed, as long as each row has a value in every column
   that is read. In this case, no value can be missed because its name has a different case.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import json

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, SchemaConflictError
from engine.readers.byte_arrays import LINE_FEED, ByteArray, count, find, find_last
from engine.readers.json_objects.arrow_safety import safe_lines
from engine.readers.json_objects.json_options import JsonOptions, TypeConflictPolicy
from engine.readers.json_objects.line_parser import LineParser
from engine.readers.json_objects.positions import RowPositions
from engine.readers.json_objects.rounding import has_unsafe_decimals, may_have_rounded
from engine.readers.json_objects.sparse_lines import LONG_LINE_BYTES, MAX_CELLS, count_names, is_sparse
from engine.readers.json_objects.type_inference import TypeInference
from engine.readers.json_objects.types import (
    TEXT,
    TypeMerger,
    has_floats,
    name_count,
    needs_python,
    parse_type,
    promised_number,
    without_timestamps,
)
from engine.readers.json_objects.value_converter import ValueConverter
from engine.readers.json_objects.values import Row
from engine.readers.lines import Block
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.reader_errors import FormatError
from engine.schema import LATE, TupleSchema, fold_case

_SAMPLE_BYTES = 16 * 1024
_NO_COLUMNS = pa.struct([])


@dataclass(frozen=True, slots=True)
class RequestedColumns:
    """Columns that a scan requests from a reader. See ``SchemaNegotiator``."""

    is_projected: Callable[[str], bool]
    promised_type: Callable[[pa.Field], pa.DataType | None]
    input_schema: TupleSchema = field(default_factory=TupleSchema)


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of parsing a block ahead of time.

    Attributes:
        wanted: The columns that the block was parsed with.
        table: The table. None if pyarrow could not parse the block exactly.
    """

    wanted: pa.StructType
    table: pa.Table | None


@dataclass(frozen=True, slots=True)
class _ParsePlan:
    """Plan of the columns to parse.

    A plan is immutable and is replaced as a whole. Therefore another thread never sees a mixture of an old and a new
    plan.

    Attributes:
        known: The names and types that were found in the file so far.
        wanted: The same names, with the types to parse to.
        read_alone: The columns to read if the other columns need not be parsed (guarantee 6). Otherwise None.
        needs_python: Whether pyarrow cannot parse these types exactly.
    """

    known: pa.StructType
    wanted: pa.StructType
    read_alone: pa.Schema | None
    needs_python: bool


ALL_COLUMNS = RequestedColumns(lambda _: True, lambda _: None)


class ObjectParser:
    """Parses the objects of a file.

    Args:
        positions: The positions of the objects.
        options: The options that contain the policies.
        requested: The columns that the scan requests.
    """

    def __init__(
        self, positions: RowPositions, options: JsonOptions, requested: RequestedColumns = ALL_COLUMNS
    ) -> None:
        self._positions = positions
        self._options = options
        self._requested = requested
        self._lines = LineParser(positions, options.malformed)
        self._inference = self._new_inference()
        self._plan = _ParsePlan(_NO_COLUMNS, _NO_COLUMNS, None, options.all_text)

    def following(self, positions: RowPositions) -> "ObjectParser":
        """Return a parser of another file that starts with the names and types of this one."""
        parser = ObjectParser(positions, self._options, self._requested)
        parser._plan = self._plan
        return parser

    @property
    def known(self) -> pa.StructType:
        """The names and types that were found in the file so far."""
        return self._plan.known

    def attempt(self, block: Block) -> Attempt:
        """Parse a block with the current plan.

        This method is thread-safe, because it does not change any state.
        """
        plan = self._plan
        if plan.needs_python or not plan.wanted.num_fields or _has_too_many_cells(block.line_feeds, plan):
            return Attempt(plan.wanted, None)
        if is_sparse(block.data, name_count(plan.known)):
            return Attempt(plan.wanted, None)
        data = safe_lines(block.data)
        if data is None:
            return Attempt(plan.wanted, None)
        if plan.read_alone is not None:
            table = _parse_with_arrow(data, plan.read_alone, "ignore")
            if table is None or any(column.null_count for column in table.columns):
                return Attempt(plan.wanted, None)
        else:
            table = _parse_with_arrow(data, pa.schema(list(plan.wanted)), "error")
        is_exact = table is not None and not may_have_rounded(table, data)
        return Attempt(plan.wanted, table if is_exact else None)

    def tables(self, block: Block, attempt: Attempt | None = None) -> Iterator[pa.Table]:
        """Yield the rows of the next block in one or more tables.

        Args:
            block: The next block.
            attempt: The result of :meth:`attempt`. It is used only if the plan has not changed since then.

        Raises:
            EngineError: If the block cannot be read.
        """
        if attempt is not None and attempt.table is not None and attempt.wanted is self._plan.wanted:
            yield attempt.table
            return
        if attempt is not None and attempt.table is None:
            # A null may indicate that the name of a value has a different case, in this block or in later blocks.
            self._plan = replace(self._plan, read_alone=None)
        self._check_long_lines(block)
        data = None if self._plan.needs_python else safe_lines(block.data)
        if data is None:
            yield from self._parse_with_python(block)
            return
        self._learn(data[: find(data, LINE_FEED, _SAMPLE_BYTES) + 1 or len(data)], block)
        if block.last_line > block.line and (
            _has_too_many_cells(count(data, LINE_FEED), self._plan) or is_sparse(data, name_count(self._plan.known))
        ):
            for half in block.halves():
                yield from self.tables(half)
            return
        table = self._parse_with_plan(data)
        if table is None and self._learn(data, block):
            yield from self.tables(block)
        elif table is None or may_have_rounded(table, data):
            yield from self._parse_with_python(block)
        else:
            yield table

    def count(self, block: Block) -> int:
        """Return the number of rows that :meth:`tables` would return.

        Raises:
            FormatError: If the block cannot be read.
        """
        data = None if self._options.malformed is MalformedPolicy.SKIP else safe_lines(block.data)
        table = None if data is None else _parse_with_arrow(data, pa.schema([]), "ignore")
        return sum(1 for _ in self._lines.rows(block)) if table is None else int(table.num_rows)

    def find_row(self, block: Block, matches: Callable[[pa.StructType], bool]) -> ErrorContext | None:
        """Return the position of the first row whose type matches. Return None if there is none."""
        types = self._new_inference().new_types(list(self._lines.rows(block)), self._positions)
        return next((self._positions.at(number) for type_, number in types if matches(type_)), None)

    def log_warnings(self, context: ErrorContext) -> None:
        """Log the changes that the policies made."""
        self._lines.log_warnings(context)

    def _new_inference(self) -> TypeInference:
        options = self._options
        return TypeInference(
            options.on_type_conflict, self._requested.is_projected, self._is_text, all_text=options.all_text
        )

    def _parse_with_plan(self, data: ByteArray) -> pa.Table | None:
        """Parse lines with pyarrow.

        Returns:
            The table. None if the lines contain unknown names or types, or are not JSON.
        """
        return None if self._plan.needs_python else _parse_with_arrow(data, pa.schema(list(self._plan.wanted)), "error")

    def _check_long_lines(self, block: Block) -> None:
        """Check that no line has an array whose objects have very many different names.

        Raises:
            FormatError: If a line would need too many cells, of which nearly all would be empty.
        """
        for start, end in _pieces(block.data):
            if end - start <= LONG_LINE_BYTES:
                continue
            line = block.data[start + find_last(block.data[start : end - 1], LINE_FEED) + 1 : end]
            names = max(count_names(line), name_count(self._plan.known))
            if is_sparse(line, names):
                number = block.line + count(block.data[: end - 1], LINE_FEED)
                raise FormatError(
                    self._positions.at(number),
                    f"the objects in arrays have too many different names ({names:,} in the line or before it), of "
                    "which each object has few. Store each object in a line of its own, or as an array of names and "
                    "values",
                )

    def _learn(self, data: ByteArray, block: Block) -> bool:
        """Add the names and types of lines to the plan.

        Returns:
            Whether the plan has changed and pyarrow can parse all lines.
        """
        before = self._plan.known
        for start, end in _pieces(data):
            piece = data[start:end]
            if self._plan.known.num_fields and self._parse_with_plan(piece) is not None:
                continue
            table = _parse_with_arrow(piece, None, "infer")
            if table is None or may_have_rounded(table, piece) or self._may_hide_integers(table.schema):
                return False
            found = pa.struct([field.with_type(without_timestamps(field.type)) for field in table.schema])
            try:
                self._merge(found, self._positions.between(block.line, block.last_line))
            except (SchemaConflictError, DuplicateColumnError):  # Python's parser determines the line
                return False
        return not self._plan.known.equals(before)

    def _may_hide_integers(self, schema: pa.Schema) -> bool:
        """Return whether pyarrow may have converted an integer to a double.

        This matters only if the policy treats such a conversion as an error.
        """
        is_strict = self._options.on_type_conflict is TypeConflictPolicy.ERROR
        return is_strict and any(has_floats(field.type) for field in schema)

    def _merge(self, found: pa.StructType, context: ErrorContext) -> None:
        """Add names and types to the plan."""
        columns = [field.with_type(self._found_type(field)) for field in found]
        merger = TypeMerger(self._options.on_type_conflict, context)
        known = merger.merge_objects(self._plan.known, pa.struct(columns))
        if name_count(known) > self._options.max_columns:
            problem = f"the file has more than {self._options.max_columns:,} column names (option 'max_columns'), "
            raise FormatError(context, problem + "including the names inside objects")
        if known.equals(self._plan.known):
            return
        wanted = pa.struct([field.with_type(parse_type(field.type, self._promised(field))) for field in known])
        is_for_python = (
            self._options.all_text
            or needs_python(known, wanted)
            or (self._options.on_type_conflict is TypeConflictPolicy.ERROR and has_floats(wanted))
        )
        self._plan = _ParsePlan(known, wanted, self._read_alone(wanted), is_for_python)

    def _read_alone(self, wanted: pa.StructType) -> pa.Schema | None:
        """Return the columns to read if the other columns need not be parsed (guarantee 6).

        Return None if all columns must be parsed.
        """
        read = [one for one in wanted if self._requested.is_projected(one.name)]
        names = {fold_case(one.name) for one in read}
        is_complete = all(fold_case(name) in names for name in self._requested.input_schema.names)
        is_flat = not any(pa.types.is_nested(one.type) or one.type.equals(LATE) for one in read)
        return pa.schema(read) if 0 < len(read) < len(wanted) and is_complete and is_flat else None

    def _is_text(self, name: str) -> bool:
        """Return whether the promised type of a column is text.

        The values of such a column cannot conflict.
        """
        return bool(self._promised(pa.field(name, LATE)) == TEXT)

    def _found_type(self, field: pa.Field) -> pa.DataType:
        return TEXT if self._is_text(field.name) else promised_number(field.type, self._promised(field))

    def _promised(self, field: pa.Field) -> pa.DataType | None:
        return self._requested.promised_type(field.with_type(LATE))

    def _parse_with_python(self, block: Block) -> Iterator[pa.Table]:
        try:
            yield from self._convert(list(self._lines.rows(block)))
        except UnicodeEncodeError:
            problem = "a string contains an incomplete surrogate pair, which is not a valid character"
            raise FormatError(self._positions.between(block.line, block.last_line), problem) from None

    def _convert(self, rows: list[Row]) -> Iterator[pa.Table]:
        """Convert parsed rows to tables with a limited number of cells."""
        for found, line in self._inference.new_types(rows, self._positions):
            self._merge(found, self._positions.at(line))
        converter = ValueConverter(self._positions)
        step = max(MAX_CELLS // max(name_count(self._plan.known), 1), 1)
        for start in range(0, len(rows), step):
            yield converter.table(rows[start : start + step], self._plan.wanted)


def _has_too_many_cells(rows: int, plan: _ParsePlan) -> bool:
    return rows * max(name_count(plan.known), 1) > MAX_CELLS


def _parse_with_arrow(data: ByteArray, schema: pa.Schema | None, unexpected: str) -> pa.Table | None:
    """Parse lines with pyarrow. Return None if pyarrow rejects them, or cannot parse them exactly.

    For a column of arrays that contain only nulls, pyarrow returns arrays without a part of their elements. Therefore
    the result is validated.
    """
    if schema is not None and has_unsafe_decimals(schema, data):
        return None
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    reading = json.ReadOptions(block_size=len(data) + 1, use_threads=False)
    try:
        table = json.open_json(pa.BufferReader(pa.py_buffer(data)), reading, options).read_all()
        table.validate()
        return table
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _pieces(data: ByteArray) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole lines that are slightly longer than ``_SAMPLE_BYTES``."""
    start = 0
    while start < len(data):
        end = find(data, LINE_FEED, start + _SAMPLE_BYTES) + 1 or len(data)
        yield start, end
        start = end
