"""The options of JSON files."""

from enum import Enum

from pydantic import BaseModel, ConfigDict, Field

from engine.readers.lines import DEFAULT_MAX_LINE_BYTES
from engine.readers.malformed_policy import MalformedPolicy


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


class JsonOptions(BaseModel):
    """Options of JSON files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: Layout = Field(
        Layout.AUTO,
        description="How objects are arranged in a file. `lines` means one object on each line, `concatenated` means "
        "objects one after another, and `array` means an array of objects. With `auto`, Lodge uses `array` if the file "
        "begins with `[`, `concatenated` if an object in the first 64 KiB spans several lines, and otherwise `lines`.",
    )
    on_type_conflict: TypeConflictPolicy = Field(
        TypeConflictPolicy.WIDEN,
        description="What happens if a column has values of several types in one file. With `error`, the scan fails. "
        "With `widen`, Lodge converts integers to doubles if the column also contains doubles, and the scan fails for "
        "other types. With `text`, Lodge converts the values to text, as they are written in the file.",
    )
    all_text: bool = Field(
        False, description="Whether Lodge reads numbers and booleans as text, as they are written in the file."
    )
    malformed: MalformedPolicy = Field(
        MalformedPolicy.FAIL,
        description="What happens if a line is not a JSON object, in the layout `lines`. With `fail`, the scan fails. "
        "With `skip`, Lodge skips the line. With `null`, the line becomes a row of nulls. With `skip` and `null`, "
        "Lodge logs one warning for each file, with the number of occurrences.",
    )
    max_line_bytes: int = Field(
        DEFAULT_MAX_LINE_BYTES,
        ge=1024,
        le=1 << 30,
        description="The maximum length of an object in bytes. If an object is longer, the scan fails.",
    )
    max_columns: int = Field(
        10_000,
        ge=1,
        le=100_000,
        description="The maximum number of names in a file, including the names of object members.",
    )
