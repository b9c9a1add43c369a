"""The reader of JSON files.

Guarantees:

1. Each object is a row. A column is added when its name first appears. A column that contains only nulls so far is
   LATE.
2. Rows are in the order of the file. Memory use is bounded by the block size and the limits.
3. Values are parsed directly to the promised type if pyarrow can do so without loss. Otherwise the reader keeps their
   text, and the loader converts the text.

Not guaranteed:

- The values of a column that is not read are not checked to be valid JSON of a single type.
- If some columns of an object are not read, the reader may not detect that the object contains one of them twice, or
  that the file has more than ``max_columns``.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa

from engine.errors import LoaderStateError, SchemaConflictError
from engine.readers.json_objects.json_options import JsonOptions
from engine.readers.json_objects.object_blocks import ObjectBlocks, open_objects
from engine.readers.json_objects.object_parser import Attempt, ObjectParser, RequestedColumns
from engine.readers.lines import BLOCK_BYTES, Block
from engine.readers.read_ahead import map_ahead
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SchemaNegotiator, SourceFile


class JsonReader:
    """The ``ContinuingReader`` of JSON files.

    It continues only with files of a single block whose rows have the names and types that are already known. Otherwise
    the types of a column would depend on other files.
    """

    def __init__(self, file: SourceFile, options: JsonOptions, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        self._options = options
        self._block_bytes = block_bytes
        self._objects: ObjectBlocks | None = None
        self._parser: ObjectParser | None = None
        self._loader: ResultSetLoader | None = None
        self._attempts: Iterator[tuple[Block, Attempt | None]] = iter(())
        self._tables: Iterator[pa.Table] = iter(())
        self._context = file.context
        self._block: Block | None = None
        self._promised_type: Callable[[pa.Field], pa.DataType | None] = lambda _: None
        self._is_count = False

    def open(self, negotiator: SchemaNegotiator) -> bool:
        self._objects = open_objects(self._file, self._options, self._block_bytes)
        self._promised_type = negotiator.promised_type
        requested = RequestedColumns(negotiator.is_projected, negotiator.promised_type, negotiator.input_schema)
        self._parser = ObjectParser(self._objects.positions, self._options, requested)
        self._is_count = negotiator.is_projection_empty
        self._loader = negotiator.build()
        self._attempts = self._parse_ahead(self._objects, self._parser)
        return True

    def next(self) -> bool:
        if self._objects is None or self._parser is None or self._loader is None:
            raise LoaderStateError("the reader is not open.")
        table = next(self._tables, None)
        if table is not None:
            self._loader.context = self._context
            self._append(table, self._parser, self._loader)
            return True
        return self._next_block(self._objects, self._parser, self._loader)

    def proceed(self, file: SourceFile) -> bool:
        if self._objects is None or self._parser is None:
            raise LoaderStateError("the reader is not open.")
        if self._is_count:
            return False
        objects = open_objects(file, self._options, self._block_bytes)
        parser = self._parser.following(objects.positions)
        try:
            block = objects.next()
            attempt = None if block is None else parser.attempt(block)
            is_alike = attempt is not None and attempt.table is not None and objects.next() is None
        except BaseException:
            objects.close()
            raise
        if block is None or not is_alike:
            objects.close()
            return False
        self._objects.close()
        self._file, self._objects, self._parser = file, objects, parser
        self._attempts = iter([(block, attempt)])
        return True

    def close(self) -> None:
        if self._objects is not None:
            self._objects.close()

    @staticmethod
    def _parse_ahead(objects: ObjectBlocks, parser: ObjectParser) -> Iterator[tuple[Block, Attempt | None]]:
        """Yield each block with the result of parsing it ahead of time.

        The first block is yielded with None instead, because no types are known yet.
        """
        first = objects.next()
        if first is not None:
            yield first, None
            yield from map_ahead(iter(objects.next, None), parser.attempt)

    def _append(self, table: pa.Table, parser: ObjectParser, loader: ResultSetLoader) -> None:
        """Append a table. A type conflict is raised with the position of the row that causes it."""
        try:
            loader.append(table)
        except SchemaConflictError as conflict:
            context = None if self._block is None else parser.find_row(self._block, self._conflicts)
            raise conflict.at((context or self._context).position) from None

    def _conflicts(self, row: pa.StructType) -> bool:
        try:
            for field in row:
                self._promised_type(field)
        except SchemaConflictError:
            return True
        return False

    def _next_block(self, objects: ObjectBlocks, parser: ObjectParser, loader: ResultSetLoader) -> bool:
        if self._is_count:
            block = objects.next()
            if block is not None:
                loader.skip_rows(parser.count(block))
                return True
        else:
            block, attempt = next(self._attempts, (None, None))
            if block is not None:
                self._block = block
                self._context = objects.positions.between(block.line, block.last_line)
                self._tables = parser.tables(block, attempt)
                return True
        parser.log_warnings(self._file.context)
        return False
