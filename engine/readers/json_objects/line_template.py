r"""Recognition of lines that add nothing to the schema that discovery knows so far.

Most lines of a file have the same members in the same order. A template is a regular expression for such lines, for
example ``\{"id":(?:-?[0-9]+|null)(?:,"city":(?:"[^"]*"|null))?\}``. RE2 compares lines with it in one pass, more than
three times as fast as pyarrow parses them. Only the other lines are parsed.

Guarantees:

1. A line that matches a template is an object that pyarrow's parser and Python's parser accept. All its names are
   known, none occurs twice, and each value is null or has exactly the known type, or a type that the known type
   contains.
2. No number in such a line can be rounded: see :func:`engine.readers.json_objects.rounding.may_have_rounded`.
3. Therefore discovery returns the same schema, or raises the same error, as without templates. If a block has a line
   that may add something, the whole block is parsed as without a template.
4. No template is used after ``_MAX_MISSES`` blocks in a row of which less than half matches.

Not guaranteed: a line that does not match may still add nothing. Examples are members in another order, an array that
contains a null, and a number with a large exponent.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.readers.byte_arrays import LINE_FEED, ByteArray, as_byte_array, find_last, is_utf_8
from engine.readers.json_objects.json_options import JsonOptions, TypeConflictPolicy
from engine.readers.json_objects.layout import SCANNER
from engine.readers.json_objects.object_parser import ObjectParser
from engine.readers.json_objects.rounding import may_have_rounded
from engine.readers.json_objects.types import DOUBLE, INTEGER, LONG_INTEGER, TEXT
from engine.readers.json_objects.values import MAX_DEPTH
from engine.readers.lines import Block
from engine.schema import LATE

_SAMPLE_BYTES = 64 * 1024
_SAMPLE_LINES = 16
_PIECE_BYTES = 2 * 1024
_NEAR_BYTES = 256
_MAX_MISSES = 4
_MAX_NAMES = 100
_MAX_PATTERN_BYTES = 32 * 1024
_STATES_OF_VALUE = 24
_MAX_STATES = 1600  # with more states, RE2 leaves the first cache of the processor, and is slower than pyarrow

_SEPARATOR = b"{}\n"
"""An object between lines that were not adjacent, so that pyarrow cannot read parts of both as one object."""

_SPACE = r"[ \t]*"
_COMMA = f"{_SPACE},{_SPACE}"
_HEX = "[0-9a-fA-F]"
_CODE_UNIT = f"[0-9a-cA-CefEF]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}"
_SURROGATE_PAIR = rf"[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = rf'\\(?:["\\/bfnrt]|u(?:{_CODE_UNIT}|{_SURROGATE_PAIR}))'
_SCALARS: Final = {
    pa.bool_(): "true|false",
    INTEGER: "-?(?:0|[1-9][0-9]{0,17})",
    LONG_INTEGER: "-?(?:0|[1-9][0-9]{0,36})",
    DOUBLE: r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+)?(?:[eE]-[0-9]{1,2})?",
    TEXT: rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"',
}


class KnownLines:
    """Recognizes blocks of one file that add nothing to the schema known so far.

    The template is derived from the first lines of the second block, and extended with lines that do not match. After
    several blocks in a row that mostly do not match, no template is used for the rest of the file.

    Args:
        parser: The parser of the file. It parses the lines that do not match.
        options: The options of the file.
    """

    def __init__(self, parser: ObjectParser, options: JsonOptions) -> None:
        self._parser = parser
        # Only Python's parser reads numbers as text, or tells an integer from a double in a column of doubles.
        is_supported = not options.all_text and options.on_type_conflict is not TypeConflictPolicy.ERROR
        self._misses = 0 if is_supported else _MAX_MISSES
        self._order = _MemberOrder()
        self._known: pa.StructType | None = None
        self._pattern: str | None = None

    def adds_nothing(self, block: Block) -> bool:
        """Return whether the parser would accept the block, and learn no names or types from it.

        The result may be a false negative.
        """
        known = self._parser.known
        if self._misses >= _MAX_MISSES or not known.num_fields or not is_utf_8(block.data):
            return False
        if known is not self._known:
            self._learn(block.data, known)
        others = self._other_lines(block.data)
        if not len(others):
            self._misses = 0
            return True
        is_miss = 2 * len(others) > len(block.data)
        self._misses = self._misses + 1 if is_miss else 0
        if is_miss:
            self._order = _MemberOrder()
        self._learn(others, known)
        table = self._parser.attempt(Block.of(others, block.line)).table
        return table is not None and not may_have_rounded(table, block.data)

    def _learn(self, data: ByteArray, known: pa.StructType) -> None:
        """Extend the template with the order of the members in the first lines."""
        for members in _sample(data):
            self._order.add(members)
        self._known = known
        self._pattern = _pattern(self._order, known)

    def _other_lines(self, data: ByteArray) -> ByteArray:
        """Return the lines that do not match the template, with some lines next to them."""
        if self._pattern is None:
            return data
        pieces = _pieces(data)
        others = pieces.filter(pc.invert(pc.match_substring_regex(pieces, self._pattern)))
        return as_byte_array(_SEPARATOR.join(others.to_pylist()))


class _MemberOrder:
    """The names of objects that have the same path, in an order that as many objects as possible have.

    Attributes:
        names: The names in their order.
        counts: The number of objects that have each name.
        inner: The order of the members of the objects in each member, including the objects in arrays.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts: Counter[str] = Counter()
        self.inner: dict[str, _MemberOrder] = {}

    def add(self, members: dict[str, Any], depth: int = 1) -> None:
        """Insert each unknown name after the name that precedes it in an object.

        Members that are nested too deeply for the parser are left out.
        """
        position = 0
        for name, value in members.items():
            if name not in self.counts:
                if len(self.names) >= _MAX_NAMES:
                    return
                self.names.insert(position, name)
            position = self.names.index(name) + 1
            self.counts[name] += 1
            for one in _objects_in(value, depth + 1):
                self.inner.setdefault(name, _MemberOrder()).add(one, depth + 1)

    def count_states(self) -> int:
        """Estimate the number of states that RE2 needs."""
        states = sum(len(name) + _STATES_OF_VALUE for name in self.names)
        return states + sum(one.count_states() for one in self.inner.values())


def _objects_in(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _objects_in(one, depth + 1)


def _pieces(data: ByteArray) -> pa.BinaryArray:
    """Return the data in pieces of whole lines, without a copy.

    Each piece is compared at once. A piece begins after a line feed near a multiple of ``_PIECE_BYTES``, so that only
    a part of the data is searched for line feeds.
    """
    numbers = np.arange(len(data) // _PIECE_BYTES)
    near = data[: len(numbers) * _PIECE_BYTES].reshape(-1, _PIECE_BYTES)[:, :_NEAR_BYTES] == LINE_FEED
    first = near.argmax(axis=1)
    starts = (numbers * _PIECE_BYTES + first + 1)[near[numbers, first]]
    offsets = np.concatenate(([0], starts, [len(data)])).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _sample(data: ByteArray) -> Iterator[dict[str, Any]]:
    """Yield the objects in the first lines. Lines that are too long or not an object are left out."""
    end = find_last(data[:_SAMPLE_BYTES], LINE_FEED) + 1
    for line in data[:end].tobytes().split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]:
        try:
            value = SCANNER.decode(line.decode())
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _pattern(order: _MemberOrder, known: pa.StructType) -> str | None:
    """Return the regular expression for whole lines, which may be empty. Return None if it is too complex."""
    line = _object(order, known) if order.count_states() <= _MAX_STATES else None
    return None if line is None else rf"\A(?:(?:{line})?[ \t\r]*\n)*\z"


def _object(order: _MemberOrder, type_: pa.StructType) -> str | None:
    """Return the expression for an object with the given order.

    Each member may be missing, except the most frequent one. Its presence determines where commas are.
    """
    members = {name: member for name in order.names if (member := _member(name, order, type_)) is not None}
    if not members:
        return rf"\{{{_SPACE}\}}"
    required = max(members, key=lambda name: order.counts[name])
    parts = list(members.values())
    at = list(members).index(required)
    before = "".join(f"(?:{one}{_COMMA})?" for one in parts[:at])
    after = "".join(f"(?:{_COMMA}{one})?" for one in parts[at + 1 :])
    return _if_short(rf"\{{{_SPACE}{before}{parts[at]}{after}{_SPACE}\}}")


def _member(name: str, order: _MemberOrder, type_: pa.StructType) -> str | None:
    """Return the expression for a member, or None if the name or its values cannot be part of a template."""
    index = type_.get_field_index(name) if name.isprintable() else -1
    if index < 0:
        return None
    found = type_.field(index).type
    value = _value(found, order.inner.get(name) or _MemberOrder())
    if value is None:
        return None
    names = sorted({json.dumps(name), json.dumps(name, ensure_ascii=False)})
    return f"(?:{'|'.join(map(_literal, names))}){_SPACE}:{_SPACE}(?:{value}{'' if value == 'null' else '|null'})"


def _value(type_: pa.DataType, order: _MemberOrder) -> str | None:
    """Return the expression for values of a type, without null, or None if there is none."""
    if type_.equals(LATE):
        return "null"
    if pa.types.is_struct(type_):
        return _object(order, type_)
    if pa.types.is_list(type_):
        return _array(type_.value_type, order)
    return _SCALARS.get(type_)


def _array(element: pa.DataType, order: _MemberOrder) -> str | None:
    """Return the expression for an array without nulls.

    Arrays that contain only nulls are left out, because pyarrow does not read them correctly.
    """
    if element.equals(LATE):
        return rf"\[{_SPACE}\]"
    one = _value(element, order)
    return None if one is None else _if_short(rf"\[{_SPACE}(?:(?:{one})(?:{_COMMA}(?:{one}))*{_SPACE})?\]")


def _if_short(expression: str) -> str | None:
    return expression if len(expression) <= _MAX_PATTERN_BYTES else None


def _literal(text: str) -> str:
    """Return the expression for a text."""
    return "".join(one if one.isalnum() or not one.isascii() else f"\\{one}" for one in text)
