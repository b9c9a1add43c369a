"""The options of JSON files."""

from enum import Enum

from pydantic import BaseModel, ConfigDict, Field

from engine.readers.lines import DEFAULT_MAX_LINE_BYTES
from engine.readers.malformed_policy import MalformedPolicy


class Layout(Enum):
    """How the objects of a file stand in it."""

    AUTO = "auto"
    LINES = "lines"
    CONCATENATED = "concatenated"
    ARRAY = "array"


class TypeConflictPolicy(Enum):
    """What becomes of a column whose values have several types in one file."""

    ERROR = "error"
    WIDEN = "widen"
    TEXT = "text"


class JsonOptions(BaseModel):
    """Options of JSON files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: Layout = Field(
        Layout.AUTO,
        description="`lines` of objects; `concatenated` objects; an `array` of objects; or `auto`: an array if the "
        "file begins with `[`, concatenated if an object in its first 64 KiB has several lines, else lines.",
    )
    on_type_conflict: TypeConflictPolicy = Field(
        TypeConflictPolicy.WIDEN,
        description="Values of several types in one column of one file: `error`; `widen`, so that integers become "
        "doubles beside doubles and anything else is an error; `text`, so that they become text as it stands there.",
    )
    all_text: bool = Field(False, description="Every number and truth value is text, as it stands in the file.")
    malformed: MalformedPolicy = Field(
        MalformedPolicy.FAIL,
        description="A line that is no JSON object, in a file of lines: `fail`; `skip` it; or a row of `null`. The "
        "last two warn, once a file, with a number.",
    )
    max_line_bytes: int = Field(
        DEFAULT_MAX_LINE_BYTES, ge=1024, le=1 << 30, description="The longest object; longer ones are an error."
    )
    max_columns: int = Field(
        10_000, ge=1, le=100_000, description="How many names a file may have, those inside objects included."
    )
