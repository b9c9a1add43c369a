"""The conversion of variants from the form in which Parquet stores them to the form of Spark.

Parquet stores a variant as a struct of ``metadata`` and ``value``, or *shredded*: a third member ``typed_value`` then
has the values of a type, and ``value`` only those of other types. The members of an object and the elements of an array
are shredded in the same way, without metadata of their own.

Guarantees:

1. An unshredded variant keeps its bytes. A shredded one has the bytes that Spark's reader gives it.
2. A variant that is not well-formed raises ArrowInvalid. Variants that are not shredded are not looked into.

Source: [parquet-variant].
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.arrow_types import is_any_list, is_bytes, is_text
from engine.schema import MAX_DECIMAL_DIGITS
from engine.spark_type import VARIANT
from engine.type_names import type_name

METADATA: Final = "metadata"
VALUE: Final = "value"
TYPED: Final = "typed_value"

_UUID_STORAGE: Final = pa.binary(16)
"""How Arrow reads UUIDs, which Spark's variants do not have."""

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_TRUE, _FALSE, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _BINARY, _STRING, _FLOAT, _DOUBLE = 1, 2, 11, 12, 13, 15, 16, 14, 7
_INTEGERS: Final = ((3, "<b"), (4, "<h"), (5, "<i"), (6, "<q"))
_DECIMALS: Final = ((8, 4, 9), (9, 8, 18), (10, 16, 38))
"""The type of a decimal, its size in bytes, and its maximum number of digits."""

_FIXED_BYTES: Final = {
    **{0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 4, 6: 8, 7: 8, 8: 5, 9: 9, 10: 17},
    **{11: 4, 12: 8, 13: 8, 14: 4, 17: 8, 18: 8, 19: 8, 20: 16},
}
"""The size of the values of a primitive type in bytes, without those that have a length of their own."""

_MAX_SHORT_STRING: Final = 63
_MAX_DEPTH: Final = 300
_EXACT: Final = Context(prec=MAX_DECIMAL_DIGITS * 2)

Keys = dict[str, int]
"""The names in the result, and their numbers."""

ReadTyped = Callable[[int, "_Names", Keys, int], bytes]


def is_variant(type_: pa.DataType) -> bool:
    """Return whether a struct can be a variant, by the names and types of its members."""
    if not pt.is_struct(type_):
        return False
    members = {type_.field(number).name: type_.field(number).type for number in range(type_.num_fields)}
    has_bytes = all(is_bytes(members[name]) for name in (METADATA, VALUE) if name in members)
    return METADATA in members and has_bytes and len(members) > 1 and not members.keys() - {METADATA, VALUE, TYPED}


def to_variants(array: pa.StructArray) -> pa.ExtensionArray:
    """Convert variants to the form of Spark.

    Args:
        array: Structs for which :func:`is_variant` is true.

    Raises:
        ArrowInvalid: If a variant is not well-formed.
    """
    members = _members(array)
    is_valid = array.is_valid()
    values: pa.Array
    if TYPED in members:
        values, metadata = _join_shredded(members, is_valid.to_pylist())
    else:
        values, metadata = members[VALUE].cast(pa.binary()), members[METADATA].cast(pa.binary())
        for found in (values, metadata):
            _require(pc.all(pc.or_(found.is_valid(), pc.invert(is_valid)), min_count=0).as_py())
    storage = pa.StructArray.from_arrays(
        [pc.fill_null(found, b"") for found in (values, metadata)],
        fields=[VARIANT.storage_type.field(number) for number in range(2)],
        mask=pc.invert(is_valid) if array.null_count else None,
    )
    return pa.ExtensionArray.from_storage(VARIANT, storage)


def _require(is_well_formed: object) -> None:
    if not is_well_formed:
        raise pa.ArrowInvalid("a variant is not well-formed")


def _join_shredded(members: Mapping[str, pa.Array], is_valid: Sequence[bool]) -> tuple[pa.Array, pa.Array]:
    """Return the values and the metadata of shredded variants."""
    shredded = _Shredded.of(members)
    values: list[bytes | None] = []
    dictionaries: list[bytes | None] = []
    for row, metadata in enumerate(members[METADATA].to_pylist()):
        if not is_valid[row]:
            values.append(None)
            dictionaries.append(None)
            continue
        _require(metadata is not None)
        keys: Keys = {}
        try:
            values.append(shredded.value(row, _Names(metadata), keys, 0))
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"a variant is not well-formed: {error}") from error
        dictionaries.append(_encode_metadata(keys))
    return pa.array(values, pa.binary()), pa.array(dictionaries, pa.binary())


class _Names:
    """The names of the members of objects, from the metadata of a variant."""

    def __init__(self, metadata: bytes) -> None:
        header = metadata[0] if metadata else 0
        _require(header & 15 == 1)
        self._data, self._width = metadata, (header >> 6) + 1
        self._count = self._number(0)
        self._start = 1 + self._width * (self._count + 2)
        self._known: dict[int, str] = {}
        self._remaining = len(metadata)

    def __getitem__(self, number: int) -> str:
        """Return a name. All names together are not longer than the metadata, so no part belongs to two of them."""
        if number not in self._known:
            name = self._read(number)
            self._remaining -= len(name)
            _require(self._remaining >= 0)
            self._known[number] = name.decode()
        return self._known[number]

    def _read(self, number: int) -> bytes:
        _require(0 <= number < self._count)
        first, end = (self._start + self._number(number + 1 + step) for step in (0, 1))
        _require(first <= end <= len(self._data))
        return self._data[first:end]

    def _number(self, position: int) -> int:
        return _read_number(self._data, 1 + position * self._width, self._width)


@dataclass(frozen=True, slots=True)
class _Shredded:
    """A column of shredded values: variants, or the members or elements of variants.

    Attributes:
        values: The values that do not have the type, in the binary form.
        is_typed: Whether each value has the type.
        typed: Returns a value that has the type, in the binary form.
    """

    values: Sequence[bytes | None]
    is_typed: Sequence[bool]
    typed: "ReadTyped"

    @classmethod
    def of(cls, members: Mapping[str, pa.Array]) -> "_Shredded":
        count = len(next(iter(members.values())))
        values = members[VALUE].to_pylist() if VALUE in members else [None] * count
        typed = members.get(TYPED, pa.nulls(count))
        return cls(values, typed.is_valid().to_pylist(), _reader(typed, values))

    def has(self, row: int) -> bool:
        """Return whether there is a value."""
        return self.is_typed[row] or self.values[row] is not None

    def value(self, row: int, names: _Names, keys: Keys, depth: int) -> bytes:
        """Return a value in the binary form. It must not be missing.

        Args:
            row: The row.
            names: The names in the file.
            keys: The names in the result. New ones are added.
            depth: The number of objects and arrays around the value.
        """
        _require(depth < _MAX_DEPTH and self.has(row))
        if self.is_typed[row]:
            return self.typed(row, names, keys, depth)
        return _Recoded(self.values[row] or b"", names, keys).value(0, depth)


def _reader(typed: pa.Array, values: Sequence[bytes | None]) -> ReadTyped:
    if pt.is_struct(typed.type):
        return _objects(typed, values)
    if is_any_list(typed.type):
        return _arrays(typed)
    if pt.is_null(typed.type):
        return lambda *_: b""
    encode = _encoder(typed.type)
    found = [b"" if value is None else encode(value) for value in _plain_values(typed)]
    return lambda row, *_: found[row]


def _members(array: pa.StructArray) -> Mapping[str, pa.Array]:
    return {array.type.field(number).name: one for number, one in enumerate(array.flatten())}


def _objects(typed: pa.StructArray, values: Sequence[bytes | None]) -> ReadTyped:
    columns = {}
    for name, member in _members(typed).items():
        _require(pt.is_struct(member.type))
        columns[name] = _Shredded.of(_members(member))

    def read(row: int, names: _Names, keys: Keys, depth: int) -> bytes:
        found: dict[str, bytes] = {}
        for name, column in columns.items():
            if column.has(row):
                keys.setdefault(name, len(keys))
                found[name] = column.value(row, names, keys, depth + 1)
        rest = values[row]
        if rest is not None:
            _require(rest and rest[0] & 3 == _OBJECT)
            recoded = _Recoded(rest, names, keys)
            for name, start in recoded.members(0):
                _require(name not in columns)
                keys.setdefault(name, len(keys))
                found[name] = recoded.value(start, depth + 1)
        return _encode_object(found, keys)

    return read


def _arrays(typed: pa.Array) -> ReadTyped:
    elements = typed.flatten()
    _require(pt.is_struct(elements.type))
    column = _Shredded.of(_members(elements))
    lengths = pc.list_value_length(typed).to_pylist()
    starts, end = [], 0
    for length in lengths:
        starts.append(end)
        end += length or 0

    def read(row: int, names: _Names, keys: Keys, depth: int) -> bytes:
        elements = range(starts[row], starts[row] + lengths[row])
        return _encode_array([column.value(element, names, keys, depth + 1) for element in elements])

    return read


class _Recoded:
    """A value in the binary form, whose objects get other numbers for their names.

    Args:
        data: The value.
        names: The names in the file.
        keys: The names in the result. New ones are added.
    """

    def __init__(self, data: bytes, names: _Names, keys: Keys) -> None:
        self._data, self._names, self._keys = data, names, keys
        self._remaining = len(data)

    def value(self, start: int, depth: int) -> bytes:
        """Return the value at a position. All values are not longer than the data, so no part belongs to two."""
        self._remaining -= 1
        _require(depth < _MAX_DEPTH and start < len(self._data) and self._remaining >= 0)
        header = self._data[start]
        kind = header & 3
        if kind == _OBJECT:
            found: dict[str, bytes] = {}
            for name, position in self.members(start):
                self._keys.setdefault(name, len(self._keys))
                found[name] = self.value(position, depth + 1)
            return _encode_object(found, self._keys)
        if kind == _ARRAY:
            _, offsets = self._elements(start, has_ids=False)
            return _encode_array([self.value(offset, depth + 1) for offset in offsets])
        size = 1 + (header >> 2) if kind == _SHORT_STRING else self._primitive_bytes(start, header >> 2)
        self._remaining -= size - 1
        _require(start + size <= len(self._data) and self._remaining >= 0)
        return self._data[start : start + size]

    def members(self, start: int) -> Iterator[tuple[str, int]]:
        """Yield the name and the position of each member of an object."""
        ids, offsets = self._elements(start, has_ids=True)
        for number, offset in zip(ids, offsets, strict=True):
            yield self._names[number], offset

    def _primitive_bytes(self, start: int, type_: int) -> int:
        if type_ in (_BINARY, _STRING):
            return 5 + _read_number(self._data, start + 1, 4)
        _require(type_ in _FIXED_BYTES)
        return 1 + _FIXED_BYTES[type_]

    def _elements(self, start: int, *, has_ids: bool) -> tuple[Sequence[int], Sequence[int]]:
        """Return the numbers of the names of an object, if there are any, and the positions of its values."""
        header = self._data[start] >> 2
        width = (header & 3) + 1
        id_width = (header >> 2 & 3) + 1 if has_ids else 0
        count_width = 4 if header >> (4 if has_ids else 2) & 1 else 1
        count = _read_number(self._data, start + 1, count_width)
        first_id = start + 1 + count_width
        first_offset = first_id + count * id_width
        data = first_offset + (count + 1) * width
        _require(data <= len(self._data))
        ids = [_read_number(self._data, first_id + at * id_width, id_width) for at in range(count if has_ids else 0)]
        return ids, [data + _read_number(self._data, first_offset + at * width, width) for at in range(count)]


def _read_number(data: bytes, start: int, width: int) -> int:
    _require(start + width <= len(data))
    return int.from_bytes(data[start : start + width], "little")


def _width(number: int) -> int:
    return max((number.bit_length() + 7) // 8, 1)


def _encode_metadata(keys: Keys) -> bytes:
    names = [name.encode() for name in keys]
    width = _width(max(sum(map(len, names)), len(names)))
    return bytes([1 | (width - 1) << 6]) + _numbers([len(names), *_offsets(names)], width) + b"".join(names)


def _encode_object(members: Mapping[str, bytes], keys: Keys) -> bytes:
    """Return an object. Its members are in the order of their names in UTF-16, as Java compares them."""
    names = sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    ids = [keys[name] for name in names]
    offsets, end = {}, 0
    for name, value in members.items():
        offsets[name], end = end, end + len(value)
    id_width, width = _width(max(ids, default=0)), _width(end)
    is_large = len(names) > 255
    header = _OBJECT | (width - 1 | id_width - 1 << 2 | is_large << 4) << 2
    count = _numbers([len(names)], 4 if is_large else 1)
    positions = [*(offsets[name] for name in names), end]
    return bytes([header]) + count + _numbers(ids, id_width) + _numbers(positions, width) + b"".join(members.values())


def _encode_array(elements: Sequence[bytes]) -> bytes:
    width = _width(sum(map(len, elements)))
    is_large = len(elements) > 255
    header = _ARRAY | (width - 1 | is_large << 2) << 2
    count = _numbers([len(elements)], 4 if is_large else 1)
    return bytes([header]) + count + _numbers(list(_offsets(elements)), width) + b"".join(elements)


def _offsets(parts: Sequence[bytes]) -> Iterator[int]:
    end = 0
    yield end
    for part in parts:
        end += len(part)
        yield end


def _numbers(numbers: Sequence[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _plain_values(typed: pa.Array) -> Sequence[Any]:
    """Return the values as Python objects. Dates and times are numbers."""
    if pt.is_date(typed.type):
        typed = typed.cast(pa.int32())
    elif pt.is_timestamp(typed.type):
        typed = typed.cast(pa.timestamp("us", typed.type.tz)).cast(pa.int64())
    found: Sequence[Any] = typed.to_pylist()
    return found


def _encoder(type_: pa.DataType) -> Callable[[Any], bytes]:
    """Return the function that encodes the values of a type.

    Raises:
        ArrowInvalid: If variants of Spark have no such type.
    """
    for is_kind, encode in _ENCODERS:
        if is_kind(type_):
            return encode
    if pt.is_timestamp(type_):
        return _encode_fixed(_TIMESTAMP_NTZ if type_.tz is None else _TIMESTAMP, "<q")
    if pt.is_decimal(type_):
        return lambda value: _encode_decimal(value, type_.scale)
    raise pa.ArrowInvalid(
        f"a variant is shredded with the type {type_name(type_)}, which variants do not have in Spark"
    )


def _header(type_: int) -> bytes:
    return bytes([_PRIMITIVE | type_ << 2])


def _encode_fixed(type_: int, code: str) -> Callable[[Any], bytes]:
    return lambda value: _header(type_) + struct.pack(code, value)


def _encode_boolean(value: bool) -> bytes:
    return _header(_TRUE if value else _FALSE)


def _encode_integer(value: int) -> bytes:
    bits = (value if value >= 0 else ~value).bit_length()
    type_, code = next(one for one in _INTEGERS if bits < 8 * struct.calcsize(one[1]))
    return _header(type_) + struct.pack(code, value)


def _encode_decimal(value: Decimal, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _EXACT))
    digits = max(len(str(abs(unscaled))), scale)
    type_, width, _ = next((one for one in _DECIMALS if digits <= one[2]), _DECIMALS[-1])
    return _header(type_) + bytes([scale]) + unscaled.to_bytes(width, "little", signed=True)


def _encode_text(value: str) -> bytes:
    data = value.encode()
    if len(data) <= _MAX_SHORT_STRING:
        return bytes([_SHORT_STRING | len(data) << 2]) + data
    return _header(_STRING) + _numbers([len(data)], 4) + data


def _encode_bytes(value: bytes) -> bytes:
    return _header(_BINARY) + _numbers([len(value)], 4) + value


_ENCODERS: Final[Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Any], bytes]]]] = (
    (pt.is_boolean, _encode_boolean),
    (pt.is_signed_integer, _encode_integer),
    (pt.is_float32, _encode_fixed(_FLOAT, "<f")),
    (pt.is_float64, _encode_fixed(_DOUBLE, "<d")),
    (pt.is_date, _encode_fixed(_DATE, "<i")),
    (is_text, _encode_text),
    (lambda type_: is_bytes(type_) and type_ != _UUID_STORAGE, _encode_bytes),
)
