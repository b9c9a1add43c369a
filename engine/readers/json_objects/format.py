"""The format of JSON, as scans know it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import ClassVar

from pydantic import BaseModel

from engine.context import ErrorContext
from engine.readers.json_objects.object_blocks import detect_layout, open_objects
from engine.readers.json_objects.object_parser import ObjectParser
from engine.readers.json_objects.options import JsonOptions, Layout
from engine.readers.json_objects.reader import JsonReader
from engine.readers.splits import byte_ranges
from engine.readers.stream import codec_of
from engine.scan.reader import RowBatchReader, SourceFile
from engine.schema import TupleSchema
from engine.suffixes import SUFFIXES


class JsonFormat:
    """JSON lines, concatenated objects, an array of objects."""

    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES[name]
    options: ClassVar[type[BaseModel]] = JsonOptions

    def discover(self, file: SourceFile, options: JsonOptions) -> TupleSchema:
        """By reading all of it: columns that are only null are LATE."""
        with closing(open_objects(file, options)) as objects:
            parser = ObjectParser(objects.place, options)
            while (block := objects.next()) is not None:
                for _ in parser.tables(block):
                    pass
            return TupleSchema.of(parser.known)

    def first_place(
        self, file: SourceFile, options: JsonOptions, is_meant: Callable[[TupleSchema], bool]
    ) -> ErrorContext | None:
        with closing(open_objects(file, options)) as objects:
            parser = ObjectParser(objects.place, options)
            while (block := objects.next()) is not None:
                place = parser.first_place(block, lambda row: is_meant(TupleSchema.of(row)))
                if place is not None:
                    return place
            return None

    def reader(self, file: SourceFile, options: JsonOptions) -> RowBatchReader:
        return JsonReader(file, options)

    def splits(self, file: SourceFile, options: JsonOptions, target_bytes: int) -> list[SourceFile]:
        """Ranges of about ``target_bytes``; only files of lines that are not compressed are split."""
        if file.size_bytes <= target_bytes or codec_of(file.path) or detect_layout(file, options) is not Layout.LINES:
            return [file]
        return [replace(file, start=start, end=end) for start, end in byte_ranges(file.size_bytes, target_bytes)]
