"""The options of JSON files."""

from dataclasses import dataclass
from enum import Enum

from engine.options import Boolean, Choice, Integer, Text, option
from engine.readers.lines import DEFAULT_MAX_LINE_BYTES
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.text_stream import UTF_8, to_encoding


class Layout(Enum):
    """Arrangement of the objects in a file."""

    AUTO = "auto"
    LINES = "lines"
    CONCATENATED = "concatenated"
    ARRAY = "array"


class TypeConflictPolicy(Enum):
    """Treatment of a column whose values have different types in the same file."""

    ERROR = "error"
    WIDEN = "widen"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonOptions:
    """Options of JSON files."""

    layout: Layout = option(
        Choice.of(Layout),
        default=Layout.AUTO,
        description="How objects are arranged in a file. `lines` means one object on each line, `concatenated` means "
        "objects one after another, and `array` means an array of objects. With `auto`, Lodge uses `array` if the file "
        "begins with `[`, `concatenated` if an object in the first 64 KiB spans several lines, and otherwise `lines`.",
    )
    encoding: str = option(
        Text(to_encoding),
        default=UTF_8,
        description="The encoding of the file, by its Python name, for example `iso-8859-1` or `utf-16`.",
    )
    on_type_conflict: TypeConflictPolicy = option(
        Choice.of(TypeConflictPolicy),
        default=TypeConflictPolicy.WIDEN,
        description="What happens if a column has values of several types in one file. With `error`, the scan fails. "
        "With `widen`, Lodge converts integers to doubles if the column also contains doubles, and the scan fails for "
        "other types. With `text`, Lodge converts the values to text, as they are written in the file.",
    )
    all_text: bool = option(
        Boolean(),
        default=False,
        description="Whether Lodge reads numbers and booleans as text, as they are written in the file.",
    )
    malformed: MalformedPolicy = option(
        Choice.of(MalformedPolicy),
        default=MalformedPolicy.FAIL,
        description="What happens if a line is not a JSON object, in the layout `lines`. With `fail`, the scan fails. "
        "With `skip`, Lodge skips the line. With `null`, the line becomes a row of nulls. With `skip` and `null`, "
        "Lodge logs one warning for each file, with the number of occurrences.",
    )
    max_line_bytes: int = option(
        Integer(at_least=1024, at_most=1 << 30),
        default=DEFAULT_MAX_LINE_BYTES,
        description="The maximum length of an object in bytes. If an object is longer, the scan fails.",
    )
    max_columns: int = option(
        Integer(at_least=1, at_most=100_000),
        default=10_000,
        description="The maximum number of names in a file, including the names of object members.",
    )
