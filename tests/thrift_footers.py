"""Changes of the footer of a Parquet file, which is a struct in Thrift's compact protocol.

A struct is a dictionary from the numbers of its fields to pairs of a kind and a value. A list is a pair of the kind of
its elements and the elements. Other values are bytes as they are encoded, without the length of texts.
"""

MAGIC = b"PAR1"
I32, TEXT, LIST, STRUCT = 5, 8, 9, 12
SCHEMA, ROW_GROUPS = 2, 4


def varint(number):
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def i32(number):
    """Return a field with an integer."""
    return I32, varint(number << 1)


class _Reader:
    def __init__(self, data):
        self.data, self.position = data, 0

    def take(self, count):
        self.position += count
        return self.data[self.position - count : self.position]

    def varint_bytes(self):
        start = self.position
        while self.data[self.position] & 128:
            self.position += 1
        self.position += 1
        return self.data[start : self.position]

    def varint(self):
        return sum((byte & 127) << 7 * place for place, byte in enumerate(self.varint_bytes()))

    def value(self, kind):
        if kind in (1, 2):
            return b""
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, 10):
            header = self.take(1)[0]
            count = self.varint() if header >> 4 == 15 else header >> 4
            return header & 15, [self.take(1) if header & 15 < 3 else self.value(header & 15) for _ in range(count)]
        if kind == TEXT:
            return self.take(self.varint())
        return self.take(8) if kind == 7 else self.take(1) if kind == 3 else self.varint_bytes()

    def struct(self):
        fields, number = {}, 0
        while header := self.take(1)[0]:
            if header >> 4:
                number += header >> 4
            else:
                found = self.varint()
                number = (found >> 1) ^ -(found & 1)
            fields[number] = header & 15, self.value(header & 15)
        return fields


def _encode(kind, value):
    if kind == STRUCT:
        return encode_struct(value)
    if kind in (LIST, 10):
        inner, elements = value
        header = (
            bytes([len(elements) << 4 | inner]) if len(elements) < 15 else bytes([240 | inner]) + varint(len(elements))
        )
        return header + b"".join(_encode(inner, one) for one in elements)
    return varint(len(value)) + value if kind == TEXT else value


def encode_struct(fields):
    encoded, last = b"", 0
    for number, (kind, value) in sorted(fields.items()):
        away = number - last
        header = bytes([away << 4 | kind]) if away < 16 else bytes([kind]) + varint(number << 1)
        encoded += header + _encode(kind, value)
        last = number
    return encoded + b"\x00"


def change_schema(file, change):
    """Return a Parquet file whose schema elements were changed.

    Args:
        file: The file.
        change: A function that changes an element, a struct, in place. It is called for all elements but the first.
    """
    size = int.from_bytes(file[-8:-4], "little")
    metadata = _Reader(file[-8 - size : -8]).struct()
    for element in metadata[SCHEMA][1][1][1:]:
        change(element)
    footer = encode_struct(metadata)
    return file[: -8 - size] + footer + len(footer).to_bytes(4, "little") + MAGIC
