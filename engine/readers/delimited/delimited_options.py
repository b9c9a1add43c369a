"""The options of delimited text, and the syntax of a file that results from them."""

from dataclasses import dataclass
from enum import Enum
from typing import Self

from engine.options import Boolean, Choice, Integer, Text, option
from engine.readers.lines import DEFAULT_MAX_LINE_BYTES
from engine.readers.malformed_policy import MalformedPolicy
from engine.readers.text_stream import UTF_8, to_encoding
from engine.suffixes import TEXT_DELIMITERS, compression_of, suffix_of

MAX_MIN_FIELDS = 1000
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


def _to_character(value: str) -> str:
    """Return an ASCII character, or an empty text.

    Raises:
        ValueError: If the text is anything else.
    """
    value = "\t" if value == "\\t" else value
    if value and (len(value) > 1 or not value.isascii() or value in _LINE_CHARACTERS):
        raise ValueError("must be one ASCII character, and must not be a line end")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class DelimitedOptions:
    """Options of CSV, TSV, PSV and TBL files."""

    delimiter: str | None = option(
        Text(_to_character),
        default=None,
        description="The ASCII character between fields, for example `\\t` for a tab. The default depends on the "
        "suffix: a comma for `.csv`, a tab for `.tsv`, and a vertical bar for `.psv` and `.tbl`.",
    )
    quote: str = option(
        Text(_to_character),
        default='"',
        description="The ASCII character around quoted fields. If empty, no field is quoted.",
    )
    escape: str = option(
        Text(_to_character),
        default="",
        description="The ASCII character that escapes the next character. If empty, there are no escapes.",
    )
    comment: str = option(
        Text(_to_character),
        default="",
        description="The ASCII character that starts a comment line. If empty, there are no comments.",
    )
    encoding: str = option(
        Text(to_encoding),
        default=UTF_8,
        description="The encoding of the file, by its Python name, for example `iso-8859-1` or `utf-16`.",
    )
    skip_lines: int = option(
        Integer(at_least=0), default=0, description="The number of lines to skip at the start of the file."
    )
    header: bool = option(
        Boolean(),
        default=False,
        description="Whether the first row contains the column names. Without a header, each row is a single array "
        "with the name `columns`.",
    )
    min_fields: int = option(
        Integer(at_least=0, at_most=MAX_MIN_FIELDS),
        default=0,
        description="The minimum number of fields in the array `columns`, for files without a header. Lodge appends "
        "nulls to shorter rows, so that `columns[n]` is null instead of an error if `n` is smaller than this number.",
    )
    ragged: RaggedPolicy = option(
        Choice.of(RaggedPolicy),
        default=RaggedPolicy.ERROR,
        description="What happens if a row has more or fewer fields than the header. With `error`, the scan fails. "
        "With `null`, missing fields are null, and the scan fails if a row has additional fields. With `truncate`, "
        "missing fields are null, and Lodge drops additional fields and logs a warning.",
    )
    empty_value: EmptyValue = option(
        Choice.of(EmptyValue),
        default=EmptyValue.TEXT,
        description="The value of an empty field in a text column, quoted or unquoted. With `text`, the value is an "
        "empty string. With `null`, the value is null. In other columns, an empty field is always null.",
    )
    null_value: str | None = option(
        Text(),
        default=None,
        description="A text that is null in columns of all types, quoted or unquoted, for example `\\N` or `NA`. By "
        "default, no text is null.",
    )
    malformed: MalformedPolicy = option(
        Choice.of(MalformedPolicy),
        default=MalformedPolicy.FAIL,
        description="What happens if a row is ragged, or if a value does not match the type of its column. With "
        "`fail`, the scan fails. With `skip`, Lodge skips the row. With `null`, the value is null. With `skip` and "
        "`null`, Lodge logs one warning for each file, with the number of occurrences.",
    )
    multiline: bool = option(
        Boolean(),
        default=True,
        description="Whether a quoted field may contain line ends. If `false`, Lodge can split a file anywhere. If "
        "`true`, Lodge first searches a file with quotes for the ends of rows. If such a file is larger than 1 GiB, "
        "one task reads the whole file.",
    )
    max_line_bytes: int = option(
        Integer(at_least=1024, at_most=1 << 30),
        default=DEFAULT_MAX_LINE_BYTES,
        description="The maximum length of a row in bytes. If a row is longer, the scan fails.",
    )

    def __post_init__(self) -> None:
        used = [value for value in (self.delimiter, self.quote, self.escape, self.comment) if value]
        if len(set(used)) < len(used):
            raise ValueError("delimiter, quote, escape and comment must differ")
        if self.delimiter == "":
            raise ValueError("the delimiter must not be empty")
        if self.header and self.min_fields:
            raise ValueError("min_fields requires files without a header; with a header, use ragged = 'null'")


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
