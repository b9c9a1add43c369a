"""From blocks of objects to columns.

pyarrow parses a block with the types that are known so far, and refuses names that are not. Then a part of the block
is looked at for what is new, and the block is parsed again. What pyarrow refuses altogether goes through Python's
parser, which tells the line and the column, or finds that it is right after all.

Guarantees:

1. Both parsers give the same rows. What they know of the file only grows.
2. Names of one tuple never differ by letter case alone: that is a DuplicateColumnError that names both.
3. Columns that were only null so far are LATE.
4. A conflict of types, or of names, is told with its line.
5. Memory stays bounded when each row has names of its own: what is parsed at once has at most ``_MAX_CELLS`` cells,
   and a file with more than ``max_columns`` names is a FormatError.
6. Where a few columns are read of many, the others are not looked at, as long as each row has a value in each column
   that is read: then none can have hidden under a name in another letter case.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyarrow import json

from engine.context import ErrorContext
from engine.errors import DuplicateColumnError, SchemaConflictError
from engine.readers.byte_arrays import LINE_FEED, Codes, count, find
from engine.readers.errors import FormatError
from engine.readers.json_objects.arrow_safety import safe_lines
from engine.readers.json_objects.line_parser import LineParser
from engine.readers.json_objects.options import JsonOptions, TypeConflictPolicy
from engine.readers.json_objects.positions import RowPositions
from engine.readers.json_objects.rounding import may_have_rounded
from engine.readers.json_objects.type_inference import TypeInference
from engine.readers.json_objects.types import (
    TEXT,
    TypeMerger,
    has_double,
    inferred,
    leaf_count,
    needs_python,
    with_promise,
)
from engine.readers.json_objects.value_converter import ValueConverter
from engine.readers.json_objects.values import Row
from engine.readers.lines import Block
from engine.readers.malformed_policy import MalformedPolicy
from engine.schema import LATE, TupleSchema, fold_case

_MAX_CELLS = 8 * 1024 * 1024
_LOOK_BYTES = 16 * 1024
_NO_COLUMNS = pa.struct([])


@dataclass(frozen=True, slots=True)
class RequestedColumns:
    """What a scan wants of the columns of a file; see ``SchemaNegotiator``."""

    is_projected: Callable[[str], bool]
    promised_type: Callable[[pa.Field], pa.DataType | None]
    input_schema: TupleSchema = field(default_factory=TupleSchema)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a block was parsed to ahead.

    Attributes:
        wanted: The columns by which it was parsed.
        table: None if it needs a closer look.
    """

    wanted: pa.StructType
    table: pa.Table | None


@dataclass(frozen=True, slots=True)
class _ParsePlan:
    """How blocks are parsed. Replaced as a whole: attempts in other threads never see one half old and half new.

    Attributes:
        known: The names and types that the file has, as far as it was parsed.
        wanted: The same with the types that were promised.
        read: The columns that are read, if others need not be looked at: see guarantee 6.
        is_for_python: pyarrow is not exact about these types.
    """

    known: pa.StructType
    wanted: pa.StructType
    read: pa.Schema | None
    is_for_python: bool


EVERYTHING = RequestedColumns(lambda _: True, lambda _: None)


class ObjectParser:
    """Parses the objects of one file.

    Args:
        place: Of its objects.
        options: The policies.
        requested: What is wanted of it.
    """

    def __init__(self, place: RowPositions, options: JsonOptions, requested: RequestedColumns = EVERYTHING) -> None:
        self._place = place
        self._options = options
        self._requested = requested
        self._lines = LineParser(place, options.malformed)
        self._typing = self._new_typing()
        self._plan = _ParsePlan(_NO_COLUMNS, _NO_COLUMNS, None, options.all_text)

    @property
    def known(self) -> pa.StructType:
        """The names and types that the file has, as far as it was parsed."""
        return self._plan.known

    def attempt(self, block: Block) -> Attempt:
        """Parses a block by what is known now. For another thread: it changes nothing."""
        plan = self._plan
        if plan.is_for_python or not plan.wanted.num_fields or _has_too_many_cells(block.line_feeds, plan):
            return Attempt(plan.wanted, None)
        data = safe_lines(block.codes)
        if data is None:
            return Attempt(plan.wanted, None)
        if plan.read is not None:
            table = _parsed(data, plan.read, "ignore")
            if table is None or any(column.null_count for column in table.columns):
                return Attempt(plan.wanted, None)
        else:
            table = _parsed(data, pa.schema(list(plan.wanted)), "error")
        is_exact = table is not None and not may_have_rounded(table, data)
        return Attempt(plan.wanted, table if is_exact else None)

    def tables(self, block: Block, attempt: Attempt | None = None) -> Iterator[pa.Table]:
        """The rows of a block, in parts.

        Args:
            block: The next one.
            attempt: What was made of it ahead. It counts if nothing was learnt since.

        Raises:
            EngineError.
        """
        if attempt is not None and attempt.table is not None and attempt.wanted is self._plan.wanted:
            yield attempt.table
            return
        if attempt is not None and attempt.table is None:
            # A null stood perhaps for a name that was not seen, and may again.
            self._plan = replace(self._plan, read=None)
        data = None if self._plan.is_for_python else safe_lines(block.codes)
        if data is None:
            yield from self._by_python(block)
            return
        self._learn(data[: find(data, LINE_FEED, _LOOK_BYTES) + 1 or len(data)], block)
        if _has_too_many_cells(count(data, LINE_FEED), self._plan) and block.last_line > block.line:
            for half in block.halves():
                yield from self.tables(half)
            return
        table = self._by_arrow(data)
        if table is None and self._learn(data, block):
            yield from self.tables(block)
        elif table is None or may_have_rounded(table, data):
            yield from self._by_python(block)
        else:
            yield table

    def count(self, block: Block) -> int:
        """How many rows :meth:`tables` would give. Raises: FormatError."""
        data = None if self._options.malformed is MalformedPolicy.SKIP else safe_lines(block.codes)
        table = None if data is None else _parsed(data, pa.schema([]), "ignore")
        return sum(1 for _ in self._lines.rows(block)) if table is None else int(table.num_rows)

    def first_place(self, block: Block, is_meant: Callable[[pa.StructType], bool]) -> ErrorContext | None:
        """The first row of a block whose own names and types are those that are meant."""
        types = self._new_typing().new_types(list(self._lines.rows(block)), self._place)
        return next((self._place.at(number) for type_, number in types if is_meant(type_)), None)

    def finish(self, context: ErrorContext) -> None:
        """Says in the log what was left out."""
        self._lines.warn(context)

    def _new_typing(self) -> TypeInference:
        options = self._options
        return TypeInference(
            options.on_type_conflict, self._requested.is_projected, self._is_text, all_text=options.all_text
        )

    def _by_arrow(self, data: Codes) -> pa.Table | None:
        """None if the block has other names or types than the known ones, or is no JSON."""
        return None if self._plan.is_for_python else _parsed(data, pa.schema(list(self._plan.wanted)), "error")

    def _learn(self, data: Codes, block: Block) -> bool:
        """Learns the names and types of lines. Returns: Whether any was new, and none is for Python's parser."""
        before = self._plan.known
        for start, end in _pieces(data):
            piece = data[start:end]
            if self._by_arrow(piece) is not None:
                continue
            table = _parsed(piece, None, "infer")
            if table is None or may_have_rounded(table, piece) or self._may_hide_integers(table.schema):
                return False
            found = pa.struct([field.with_type(inferred(field.type)) for field in table.schema])
            try:
                self._merge(found, self._place.near(block.line, block.last_line))
            except (SchemaConflictError, DuplicateColumnError):  # Python's parser tells the line
                return False
        return not self._plan.known.equals(before)

    def _may_hide_integers(self, schema: pa.Schema) -> bool:
        """Whether the policy wants to know of an integer that pyarrow may have made a double."""
        is_strict = self._options.on_type_conflict is TypeConflictPolicy.ERROR
        return is_strict and any(has_double(field.type) for field in schema)

    def _merge(self, found: pa.StructType, context: ErrorContext) -> None:
        columns = [field.with_type(TEXT) if self._is_text(field.name) else field for field in found]
        known = TypeMerger(self._options.on_type_conflict, context).objects(self._plan.known, pa.struct(columns))
        if leaf_count(known) > self._options.max_columns:
            problem = f"the file has more than {self._options.max_columns:,} names of columns (option 'max_columns'), "
            raise FormatError(context, problem + "those inside of objects included")
        if known.equals(self._plan.known):
            return
        wanted = pa.struct([field.with_type(with_promise(field.type, self._promised(field))) for field in known])
        is_for_python = (
            self._options.all_text
            or needs_python(known, wanted)
            or (self._options.on_type_conflict is TypeConflictPolicy.ERROR and has_double(known))
        )
        self._plan = _ParsePlan(known, wanted, self._read_alone(wanted), is_for_python)

    def _read_alone(self, wanted: pa.StructType) -> pa.Schema | None:
        """The columns that are read, if others need not even be looked at: see guarantee 6."""
        read = [one for one in wanted if self._requested.is_projected(one.name)]
        names = {fold_case(one.name) for one in read}
        is_complete = all(fold_case(name) in names for name in self._requested.input_schema.names)
        is_flat = not any(pa.types.is_nested(one.type) or one.type.equals(LATE) for one in read)
        return pa.schema(read) if 0 < len(read) < len(wanted) and is_complete and is_flat else None

    def _is_text(self, name: str) -> bool:
        """Whether the column is promised to be text, so that its values cannot conflict."""
        return bool(self._promised(pa.field(name, LATE)) == TEXT)

    def _promised(self, field: pa.Field) -> pa.DataType | None:
        return self._requested.promised_type(field.with_type(LATE))

    def _by_python(self, block: Block) -> Iterator[pa.Table]:
        try:
            yield from self._by_python_rows(list(self._lines.rows(block)))
        except UnicodeEncodeError:
            problem = "a text has half of a surrogate pair, which is no character"
            raise FormatError(self._place.near(block.line, block.last_line), problem) from None

    def _by_python_rows(self, rows: list[Row]) -> Iterator[pa.Table]:
        for found, line in self._typing.new_types(rows, self._place):
            self._merge(found, self._place.at(line))
        converting = ValueConverter(self._place)
        step = max(_MAX_CELLS // max(leaf_count(self._plan.known), 1), 1)
        for start in range(0, len(rows), step):
            yield converting.table(rows[start : start + step], self._plan.wanted)


def _has_too_many_cells(rows: int, plan: _ParsePlan) -> bool:
    return rows * max(leaf_count(plan.known), 1) > _MAX_CELLS


def _parsed(data: Codes, schema: pa.Schema | None, unexpected: str) -> pa.Table | None:
    """What pyarrow makes of lines; None if it refuses them."""
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    reading = json.ReadOptions(block_size=len(data) + 1, use_threads=False)
    try:
        return json.read_json(pa.BufferReader(pa.py_buffer(data)), reading, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _pieces(data: Codes) -> Iterator[tuple[int, int]]:
    """Ranges of whole lines, a little longer than ``_LOOK_BYTES``."""
    start = 0
    while start < len(data):
        end = find(data, LINE_FEED, start + _LOOK_BYTES) + 1 or len(data)
        yield start, end
        start = end
