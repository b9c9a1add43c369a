"""The options of delimited text, and what they mean for one file."""

import codecs
from dataclasses import dataclass
from enum import Enum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engine.readers.lines import DEFAULT_MAX_LINE_BYTES
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.stream import UTF_8, codec_of
from engine.suffixes import TEXT_DELIMITERS, suffix_of

_OF_LINES = "\r\n\0"
_BYTE_ENCODINGS_ONLY = "is no encoding of text that this Python knows"


class RaggedPolicy(Enum):
    """What becomes of a row with another number of fields than the header has."""

    ERROR = "error"
    NULL = "null"
    TRUNCATE = "truncate"


class EmptyValue(Enum):
    """What an empty field of a text column is."""

    TEXT = "text"
    NULL = "null"


class DelimitedOptions(BaseModel):
    """Options of CSV, TSV, PSV and TBL files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delimiter: str | None = Field(
        None,
        description="One ASCII character between fields, `\\t` for a tab. By default the suffix names it: a comma for "
        ".csv, a tab for .tsv, a bar for .psv and .tbl.",
    )
    quote: str = Field('"', description="One ASCII character around fields that hold others; empty for no quotes.")
    escape: str = Field(
        "", description="One ASCII character that takes the meaning of the one after it; empty for none."
    )
    comment: str = Field("", description="One ASCII character; lines that start with it are left out. Empty for none.")
    encoding: str = Field(UTF_8, description="Of the file, as Python names it. A byte order mark of UTF-8 is removed.")
    skip_lines: int = Field(0, ge=0, description="Lines at the start of the file that are not read.")
    header: bool = Field(
        False, description="The first row names the columns. Without, each row is the array `columns`."
    )
    ragged: RaggedPolicy = Field(
        RaggedPolicy.ERROR,
        description="A row that has not as many fields as the header: `error`; `null`, so that missing fields are null "
        "and too many an error; `truncate`, so that missing ones are null and too many are left out with a warning.",
    )
    empty_value: EmptyValue = Field(
        EmptyValue.TEXT,
        description="An empty field of a text column, also a quoted one: `text` or `null`. In others it is null.",
    )
    malformed: MalformedPolicy = Field(
        MalformedPolicy.FAIL,
        description="A row with a value that is not of the column's type, or that is ragged: `fail`; `skip` the row; "
        "or `null` for the value. The last two warn, once a file, with a number.",
    )
    multiline: bool = Field(
        True,
        description="A quoted field may hold line ends. If not, files are cut anywhere; else those with quotes are "
        "looked through for the ends of rows first, up to 1 GiB, and larger ones are read by one task.",
    )
    max_line_bytes: int = Field(
        DEFAULT_MAX_LINE_BYTES, ge=1024, le=1 << 30, description="The longest row; longer ones are an error."
    )

    @field_validator("delimiter", "quote", "escape", "comment")
    @classmethod
    def _one_character(cls, value: str | None) -> str | None:
        value = "\t" if value == "\\t" else value
        if value and (len(value) > 1 or not value.isascii() or value in _OF_LINES):
            raise ValueError("must be one ASCII character, and none that ends a line")
        return value

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            name = codecs.lookup(value).name
            "a".encode(name)
            codecs.getincrementaldecoder(name)
        except (LookupError, UnicodeError):
            raise ValueError(_BYTE_ENCODINGS_ONLY) from None
        return name

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        used = [value for value in (self.delimiter, self.quote, self.escape, self.comment) if value]
        if len(set(used)) < len(used):
            raise ValueError("delimiter, quote, escape and comment must differ")
        if self.delimiter == "":
            raise ValueError("the delimiter must not be empty")
        return self


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the rows of one file are written.

    Attributes:
        delimiter: Between fields.
        quote: Around fields; empty for none.
        escape: Before a character without meaning; empty for none.
        comment: At the start of lines that are none; empty for none.
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
    """Whether a byte of the file is a byte of its text."""
    return codec_of(path) is None and options.encoding == UTF_8
