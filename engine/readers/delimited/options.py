"""The options of delimited text, and the syntax of a file that results from them."""

import codecs
from dataclasses import dataclass
from enum import Enum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engine.readers.lines import DEFAULT_MAX_LINE_BYTES
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.stream import UTF_8
from engine.suffixes import TEXT_DELIMITERS, compression_of, suffix_of

_LINE_CHARACTERS = "\r\n\0"


class RaggedPolicy(Enum):
    """Treatment of a row with more or fewer fields than the header."""

    ERROR = "error"
    NULL = "null"
    TRUNCATE = "truncate"


class EmptyValue(Enum):
    """Value of an empty field in a text column."""

    TEXT = "text"
    NULL = "null"


class DelimitedOptions(BaseModel):
    """Options of CSV, TSV, PSV and TBL files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delimiter: str | None = Field(
        None,
        description="The ASCII character between fields, for example `\\t` for a tab. The default depends on the "
        "suffix: a comma for `.csv`, a tab for `.tsv`, and a vertical bar for `.psv` and `.tbl`.",
    )
    quote: str = Field('"', description="The ASCII character around quoted fields. If empty, no field is quoted.")
    escape: str = Field(
        "", description="The ASCII character that escapes the next character. If empty, there are no escapes."
    )
    comment: str = Field(
        "", description="The ASCII character that starts a comment line. If empty, there are no comments."
    )
    encoding: str = Field(UTF_8, description="The Python name of the encoding of the file.")
    skip_lines: int = Field(0, ge=0, description="The number of lines to skip at the start of the file.")
    header: bool = Field(
        False,
        description="Whether the first row contains the column names. Without a header, each row is a single array "
        "with the name `columns`.",
    )
    ragged: RaggedPolicy = Field(
        RaggedPolicy.ERROR,
        description="What happens if a row has more or fewer fields than the header. With `error`, the scan fails. "
        "With `null`, missing fields are null, and the scan fails if a row has additional fields. With `truncate`, "
        "missing fields are null, and Lodge drops additional fields and logs a warning.",
    )
    empty_value: EmptyValue = Field(
        EmptyValue.TEXT,
        description="The value of an empty field in a text column, quoted or unquoted. With `text`, the value is an "
        "empty string. With `null`, the value is null. In other columns, an empty field is always null.",
    )
    malformed: MalformedPolicy = Field(
        MalformedPolicy.FAIL,
        description="What happens if a row is ragged, or if a value does not match the type of its column. With "
        "`fail`, the scan fails. With `skip`, Lodge skips the row. With `null`, the value is null. With `skip` and "
        "`null`, Lodge logs one warning for each file, with the number of occurrences.",
    )
    multiline: bool = Field(
        True,
        description="Whether a quoted field may contain line ends. If `false`, Lodge can split a file anywhere. If "
        "`true`, Lodge first searches a file with quotes for the ends of rows. If such a file is larger than 1 GiB, "
        "one task reads the whole file.",
    )
    max_line_bytes: int = Field(
        DEFAULT_MAX_LINE_BYTES,
        ge=1024,
        le=1 << 30,
        description="The maximum length of a row in bytes. If a row is longer, the scan fails.",
    )

    @field_validator("delimiter", "quote", "escape", "comment")
    @classmethod
    def _check_character(cls, value: str | None) -> str | None:
        value = "\t" if value == "\\t" else value
        if value and (len(value) > 1 or not value.isascii() or value in _LINE_CHARACTERS):
            raise ValueError("must be one ASCII character, and must not be a line end")
        return value

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, value: str) -> str:
        try:
            name = codecs.lookup(value).name
            "a".encode(name)
            codecs.getincrementaldecoder(name)
        except (LookupError, UnicodeError):
            raise ValueError("is not a text encoding that Python supports") from None
        return name

    @model_validator(mode="after")
    def _check_characters_differ(self) -> Self:
        used = [value for value in (self.delimiter, self.quote, self.escape, self.comment) if value]
        if len(set(used)) < len(used):
            raise ValueError("delimiter, quote, escape and comment must differ")
        if self.delimiter == "":
            raise ValueError("the delimiter must not be empty")
        return self


@dataclass(frozen=True, slots=True)
class Dialect:
    """Syntax of the rows of a file.

    Attributes:
        delimiter: The character between fields.
        quote: The character around quoted fields. Empty if fields are not quoted.
        escape: The character before an escaped character. Empty if there is none.
        comment: The character at the start of a comment line. Empty if there are no comments.
    """

    delimiter: str
    quote: str
    escape: str
    comment: str

    @classmethod
    def of(cls, options: DelimitedOptions, path: str) -> Self:
        delimiter = options.delimiter or TEXT_DELIMITERS.get(suffix_of(path), ",")
        return cls(delimiter, options.quote, options.escape, options.comment)


def is_splittable(options: DelimitedOptions, path: str) -> bool:
    """Return whether the file is not compressed and its bytes are UTF-8 text."""
    return compression_of(path) is None and options.encoding == UTF_8
