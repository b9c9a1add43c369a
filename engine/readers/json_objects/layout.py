"""Detection of the layout of a JSON file from its first bytes."""

import codecs
import json

from engine.readers.json_objects.json_options import JsonOptions, Layout
from engine.readers.json_objects.values import skip_white_space
from engine.readers.text_stream import TextStream
from engine.scan.reader import SourceFile

SCANNER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
"""Finds the end of a value without converting the numbers in it."""

_PEEK_BYTES = 64 * 1024
_WHITE_SPACE = b" \t\r\n"
_NEAR_END = 16


def detect_layout(file: SourceFile, options: JsonOptions) -> Layout:
    """Return the layout from the options, or detect the layout from the start of the file.

    The layout of a range that does not start at the beginning of the file is always ``lines``.

    Raises:
        FileError: If the file cannot be read.
    """
    with TextStream(file, options.encoding) as stream:
        return peek_layout(file, options, stream)


def peek_layout(file: SourceFile, options: JsonOptions, stream: TextStream) -> Layout:
    """Return the layout as :func:`detect_layout` does, from a stream at the start of the file.

    The stream is still at the start of the file afterwards.

    Raises:
        FileError: If the file cannot be read.
    """
    if options.layout is not Layout.AUTO:
        return options.layout
    if file.start:
        return Layout.LINES
    start = stream.read(_PEEK_BYTES)
    stream.give_back(start)
    text = start.removeprefix(codecs.BOM_UTF8).lstrip(_WHITE_SPACE)
    return _layout_of(text.decode(errors="replace"), is_whole=len(start) < _PEEK_BYTES)


def is_truncated(text: str, error: json.JSONDecodeError) -> bool:
    """Return whether the JSON may become valid if more text follows."""
    return error.pos >= len(text) - _NEAR_END or error.msg.startswith("Unterminated string")


def _layout_of(start: str, *, is_whole: bool) -> Layout:
    """Detect the layout from the start of a file.

    Args:
        start: The start of the file.
        is_whole: Whether ``start`` is the whole file.
    """
    if start.startswith("["):
        return Layout.ARRAY
    position = 0
    try:
        while position < len(start):
            _, end = SCANNER.raw_decode(start, position)
            if "\n" in start[position:end]:
                return Layout.CONCATENATED
            position = skip_white_space(start, end)
    except json.JSONDecodeError as error:
        # If the text ends inside an object, the object may span several lines. Any other error concerns a single line.
        may_span_lines = not is_whole and is_truncated(start, error) and "\n" in start[position:]
        return Layout.CONCATENATED if may_span_lines else Layout.LINES
    except RecursionError:
        return Layout.LINES
    return Layout.LINES
