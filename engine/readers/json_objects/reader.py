"""The reader of JSON.

Guarantees:

1. Each object is a row. Columns come as they are met; those that were only null so far are LATE.
2. Rows come in the order of the file, and memory is bounded by block and limits.
3. A promised type is met without loss where pyarrow can parse to it, or its text is kept for the loader to convert.

Not guaranteed: that values of columns that nobody reads are JSON of one type.
"""

from collections.abc import Iterator

import pyarrow as pa

from engine.errors import LoaderStateError
from engine.readers.json_objects.objects import Objects, open_objects
from engine.readers.json_objects.options import JsonOptions
from engine.readers.json_objects.parser import Demand, ObjectParser
from engine.readers.lines import BLOCK_BYTES
from engine.result_set.loader import ResultSetLoader
from engine.scan.reader import SchemaNegotiator, SourceFile


class JsonReader:
    """Implements ``RowBatchReader``."""

    def __init__(self, file: SourceFile, options: JsonOptions, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        self._options = options
        self._block_bytes = block_bytes
        self._objects: Objects | None = None
        self._parser: ObjectParser | None = None
        self._loader: ResultSetLoader | None = None
        self._tables: Iterator[pa.Table] = iter(())
        self._place = file.context
        self._is_count = False

    def open(self, negotiator: SchemaNegotiator) -> bool:
        self._objects = open_objects(self._file, self._options, self._block_bytes)
        demand = Demand(negotiator.is_projected, negotiator.promised_type)
        self._parser = ObjectParser(self._objects.place, self._options, demand)
        self._is_count = negotiator.is_projection_empty
        self._loader = negotiator.build()
        return True

    def next(self) -> bool:
        if self._objects is None or self._parser is None or self._loader is None:
            raise LoaderStateError("the reader is not open.")
        table = next(self._tables, None)
        if table is not None:
            self._loader.context = self._place
            self._loader.append(table)
            return True
        return self._next_block(self._objects, self._parser, self._loader)

    def close(self) -> None:
        if self._objects is not None:
            self._objects.close()

    def _next_block(self, objects: Objects, parser: ObjectParser, loader: ResultSetLoader) -> bool:
        block = objects.next()
        if block is None:
            parser.finish(self._file.context)
            return False
        if self._is_count:
            loader.skip_rows(parser.count(block))
        else:
            self._place = objects.place.near(block.line, block.last_line)
            self._tables = parser.tables(block)
        return True
