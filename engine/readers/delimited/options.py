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
        description="The ASCII character between fields, `\\t` for a tab. By default the suffix decides: a comma for "
        "`.csv`, a tab for `.tsv`, a bar for `.psv` and `.tbl`.",
    )
    quote: str = Field('"', description="The ASCII character around quoted fields. Empty for no quotes.")
    escape: str = Field("", description="The ASCII character that escapes the next one. Empty for no escapes.")
    comment: str = Field("", description="The ASCII character that starts a comment line. Empty for no comments.")
    encoding: str = Field(UTF_8, description="The encoding of the file, by its Python name.")
    skip_lines: int = Field(0, ge=0, description="The number of lines to skip at the start of the file.")
    header: bool = Field(
        False,
        description="Whether the first row has the names of the columns. Without a header, each row is the array "
        "`columns`.",
    )
    ragged: RaggedPolicy = Field(
        RaggedPolicy.ERROR,
        description="For a row with more or fewer fields than the header. `error` fails. `null` sets missing fields to "
        "null, and fails for extra fields. `truncate` sets missing fields to null, and drops extra fields with a "
        "warning.",
    )
    empty_value: EmptyValue = Field(
        EmptyValue.TEXT,
        description="The value of an empty field in a text column, quoted or not: empty `text` or `null`. In other "
        "columns it is null.",
    )
    malformed: MalformedPolicy = Field(
        MalformedPolicy.FAIL,
        description="For a ragged row, or a value that is not of its column's type. `fail` fails. `skip` skips the "
        "row. `null` sets the value to null. The last two log one warning for each file, with a count.",
    )
    multiline: bool = Field(
        True,
        description="Whether a quoted field may contain line ends. If not, a file can be split anywhere. If so, a file "
        "with quotes is searched for the ends of rows first; above 1 GiB, one task reads it.",
    )
    max_line_bytes: int = Field(
        DEFAULT_MAX_LINE_BYTES, ge=1024, le=1 << 30, description="The longest row. A longer one is an error."
    )

    @field_validator("delimiter", "quote", "escape", "comment")
    @classmethod
    def _check_character(cls, value: str | None) -> str | None:
        value = "\t" if value == "\\t" else value
        if value and (len(value) > 1 or not value.isascii() or value in _LINE_CHARACTERS):
            raise ValueError("must be one ASCII character, and none that ends a line")
        return value

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, value: str) -> str:
        try:
            name = codecs.lookup(value).name
            "a".encode(name)
            codecs.getincrementaldecoder(name)
        except (LookupError, UnicodeError):
            raise ValueError("is not a text encoding that Python knows") from None
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
