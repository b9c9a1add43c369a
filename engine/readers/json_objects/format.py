"""The JSON format: discovery, splits, and creation of the reader."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import ClassVar

from engine.context import ErrorContext
from engine.readers.json_objects.json_options import JsonOptions, Layout
from engine.readers.json_objects.json_reader import JsonReader
from engine.readers.json_objects.layout import detect_layout
from engine.readers.json_objects.line_template import KnownLines
from engine.readers.json_objects.object_blocks import open_objects
from engine.readers.json_objects.object_parser import ObjectParser
from engine.readers.lines import BLOCK_BYTES, Block
from engine.readers.splits import split_by_bytes
from engine.readers.text_stream import UTF_8
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema
from engine.suffixes import SUFFIXES, compression_of


class JsonFormat:
    """Format of JSON files that contain lines, concatenated objects, or an array of objects.

    Args:
        block_bytes: The number of bytes that discovery reads at once.
    """

    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    options: ClassVar[type] = JsonOptions

    def __init__(self, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes

    def discover(self, file: SourceFile, options: JsonOptions) -> TupleSchema:
        """Infer the schema from the whole file. Columns that contain only nulls are LATE.

        Lines that add nothing to the schema are recognized without parsing them, see :class:`KnownLines`.
        """
        with self._parsing(file, options) as (parser, blocks):
            known_lines = KnownLines(parser, options)
            for block in blocks:
                if not known_lines.adds_nothing(block):
                    for _ in parser.tables(block):
                        pass
            return TupleSchema.of(parser.known)

    def find_place(
        self, file: SourceFile, options: JsonOptions, matches: Callable[[TupleSchema], bool]
    ) -> ErrorContext | None:
        with self._parsing(file, options) as (parser, blocks):
            places = (parser.find_row(block, lambda row: matches(TupleSchema.of(row))) for block in blocks)
            return next((place for place in places if place is not None), None)

    def reader(self, file: SourceFile, options: JsonOptions) -> RowBatchReader:
        return JsonReader(file, options)

    def splits(self, file: SourceFile, options: JsonOptions, target_bytes: int) -> list[SourceFile]:
        """Split a file into ranges of about ``target_bytes``.

        Only a file of UTF-8 text that is not compressed and has the layout ``lines`` is split.
        """
        if file.size_bytes <= target_bytes or compression_of(file.path) or options.encoding != UTF_8:
            return [file]
        return split_by_bytes(file, target_bytes) if detect_layout(file, options) is Layout.LINES else [file]

    @contextmanager
    def _parsing(self, file: SourceFile, options: JsonOptions) -> Iterator[tuple[ObjectParser, Iterator[Block]]]:
        """Open a file, and return its blocks together with a parser for all columns."""
        with closing(open_objects(file, options, self._block_bytes)) as objects:
            yield ObjectParser(objects.positions, options), iter(objects.next, None)
