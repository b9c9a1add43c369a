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
        description="`lines`: one object on each line. `concatenated`: objects one after another. `array`: an array of "
        "objects. `auto`: an array if the file begins with `[`; concatenated if an object in its first 64 KiB spans "
        "several lines; otherwise lines.",
    )
    on_type_conflict: TypeConflictPolicy = Field(
        TypeConflictPolicy.WIDEN,
        description="For values of several types in one column of one file. `error` fails. `widen` converts integers "
        "to doubles if the column also has doubles, and fails for other types. `text` converts the values to text, "
        "as they are written in the file.",
    )
    all_text: bool = Field(
        False, description="Whether numbers and booleans become text, as they are written in the file."
    )
    malformed: MalformedPolicy = Field(
        MalformedPolicy.FAIL,
        description="For a line that is not a JSON object, in the layout `lines`. `fail` fails. `skip` skips the line. "
        "`null` makes it a row of nulls. The last two log one warning for each file, with a count.",
    )
    max_line_bytes: int = Field(
        DEFAULT_MAX_LINE_BYTES, ge=1024, le=1 << 30, description="The longest object. A longer one is an error."
    )
    max_columns: int = Field(
        10_000,
        ge=1,
        le=100_000,
        description="The largest number of names in a file, including the names of members of objects.",
    )
