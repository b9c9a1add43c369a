"""Requests for the fuzzer: valid requests, and small changes that decoders may read differently."""

import uuid
from collections.abc import Callable
from random import Random

from pyspark.sql.connect.proto import base_pb2

from gateway.errors import GatewayError
from gateway.messages.wire import LENGTH, encode_field, encode_varint, read_fields

KINDS = {
    method.name: method.input_type._concrete_class
    for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
}
_TEXTS = ["", "ann", "bob", "ü", "\U0001f600", "x" * 70, "y" * 200]
_NUMBERS = [*range(1, 13), 15, 16, 19000, 2047, 2**29 - 1]


def make_case(random: Random) -> tuple[str, bytes]:
    """Return the name of a method and an encoded request, which may be malformed."""
    method = random.choice([*KINDS, *["ExecutePlan"] * 6])
    data = _valid_request(random, method)
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        data = random.choice(_CHANGES)(random, data)
    return method, data


def _valid_request(random: Random, method: str) -> bytes:
    request = KINDS[method]()
    if random.random() < 0.95:
        request.session_id = str(uuid.UUID(int=random.getrandbits(128)))
    if random.random() < 0.9:
        request.user_context.user_id = random.choice(_TEXTS)
        request.user_context.user_name = random.choice(_TEXTS)
        if random.random() < 0.2:
            request.user_context.extensions.add().type_url = "type.googleapis.com/x"
    request.client_type = random.choice(_TEXTS)
    if method in ("ExecutePlan", "ReattachExecute", "ReleaseExecute"):
        request.operation_id = random.choice(["", "1", str(uuid.UUID(int=random.getrandbits(128)))])
    if method == "ExecutePlan":
        request.tags.extend(random.choices(_TEXTS, k=random.randrange(3)))
        kind = random.randrange(4)
        if kind == 0:
            request.plan.root.sql.query = random.choice(["select 1", "drop table t"])
        elif kind == 1:
            request.plan.command.sql_command.input.sql.query = "drop table t"
        elif kind == 2:
            request.plan.compressed_operation.data = b"data"
            request.plan.compressed_operation.op_type = 1
    fields = _split(request.SerializeToString())
    random.shuffle(fields)
    return b"".join(fields)


def _split(data: bytes) -> list[bytes]:
    return [data[field.tag_start : field.end] for field in read_fields(data)]


def _field(random: Random) -> bytes:
    """Return a field whose number, wire type, tag and length may be unusual."""
    number = random.choice(_NUMBERS)
    wire_type = random.choice([2, 2, 2, 2, 0, 1, 5, 3, 4, 6, 7])
    tag = number << 3 | wire_type
    content = random.choice(
        [
            b"",
            b"ann",
            b"\x52\x0d\x0a\x0bdrop view v",
            b"\x0a\x03bob",
            b"\x12\x03bob",
            b"\xff\xff",
            encode_field(1, b"\x0a\x00"),
            random.randbytes(5),
        ]
    )
    if wire_type == 2:
        value = _varint(random, len(content)) + content
    elif wire_type == 0:
        value = _varint(random, random.choice([0, 1, 127, 128, 2**32, 2**63, 2**64 - 1, 2**64, 2**69]))
    else:
        value = random.randbytes({1: 8, 5: 4}.get(wire_type, 0))
    if wire_type == 3 and random.random() < 0.7:
        value = _varint(random, number << 3 | 4)
    return _varint(random, tag) + value


def _varint(random: Random, number: int) -> bytes:
    """Encode a number, sometimes not in its shortest form, or with bits that some decoders drop."""
    kind = random.randrange(8)
    if kind == 0:
        number |= 1 << random.choice([31, 32, 33, 35, 40, 62, 63, 64, 68])
    encoded = encode_varint(number)
    if kind == 1:
        padding = random.choice([1, 2, 3, 5, 9])
        encoded = encoded[:-1] + bytes([encoded[-1] | 0x80]) + b"\x80" * (padding - 1) + b"\x00"
    return encoded


def _insert_field(random: Random, data: bytes) -> bytes:
    try:
        fields = _split(data)
    except GatewayError:  # an earlier change made the request malformed
        fields = [data]
    fields.insert(random.randint(0, len(fields)), _field(random))
    return b"".join(fields)


def _change_inside(random: Random, data: bytes) -> bytes:
    """Insert a field into the user context, or into the plan at any depth."""
    try:
        fields = read_fields(data)
    except GatewayError:  # an earlier change made the request malformed
        return data
    parts = [data[field.tag_start : field.end] for field in fields]
    for index, field in enumerate(fields):
        if field.number in (2, 3) and field.wire_type == LENGTH and random.random() < 0.7:
            parts[index] = encode_field(field.number, _change_message(random, data[field.start : field.end]))
    return b"".join(parts)


def _change_message(random: Random, data: bytes) -> bytes:
    try:
        fields = [field for field in read_fields(data) if field.wire_type == LENGTH]
    except GatewayError:  # a text
        return data
    if fields and random.random() < 0.7:
        field = random.choice(fields)
        content = _change_message(random, data[field.start : field.end])
        return data[: field.tag_start] + encode_field(field.number, content) + data[field.end :]
    return random.choice([data + _field(random), _field(random) + data, data * 2])


def _repeat_field(random: Random, data: bytes) -> bytes:
    try:
        fields = _split(data)
    except GatewayError:  # an earlier change made the request malformed
        return data * 2
    if not fields:
        return data
    fields.insert(random.randint(0, len(fields)), random.choice(fields))
    return b"".join(fields)


def _change_byte(random: Random, data: bytes) -> bytes:
    if not data:
        return random.randbytes(3)
    position = random.randrange(len(data))
    return data[:position] + random.randbytes(1) + data[position + 1 :]


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randint(0, len(data))]


_CHANGES: list[Callable[[Random, bytes], bytes]] = [
    *[_insert_field] * 4,
    *[_change_inside] * 3,
    _repeat_field,
    _change_byte,
    _cut,
]
