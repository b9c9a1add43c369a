"""Decodes the answers of backends, whose bytes nobody has checked.

A decoded field can occupy 25 times the memory of its bytes, and the decoder holds Python's lock. Therefore the fields
are counted first. Counting holds the lock only for moments, but takes long, so it happens in a thread.
"""

import asyncio
from typing import TypeVar, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message

from gateway.blocking_work.request_pools import INLINE_BYTES
from gateway.errors import GatewayError, backend_failed
from gateway.messages.wire import count_fields

MAX_CONTROL_BYTES = 4 * 1024 * 1024
"""The maximum size of an answer about sessions and operations, which contains ids and states."""

_MAX_FIELDS = 100_000

_Answer = TypeVar("_Answer", bound=Message)


async def decode_answer(kind: type[_Answer], data: bytes, address: str, max_bytes: int | None = None) -> _Answer:
    """Return a decoded answer.

    Args:
        kind: Its type.
        data: The encoded answer.
        address: The address of the backend.
        max_bytes: The maximum size of the answer. None for that of any message.

    Raises:
        GatewayError: If it cannot be decoded, is larger, or has more than 100,000 fields.
    """
    if max_bytes is not None and len(data) > max_bytes:
        raise backend_failed(address, f"its answer has {len(data):,} bytes, more than {max_bytes:,}")
    if len(data) > INLINE_BYTES:
        return await asyncio.to_thread(_decode_large, kind, data, address)
    return _decode(kind, data, address)


def _decode_large(kind: type[_Answer], data: bytes, address: str) -> _Answer:
    try:
        count_fields(data, cast("Descriptor", kind.DESCRIPTOR), _MAX_FIELDS)
    except GatewayError as error:
        raise backend_failed(address, f"its answer cannot be decoded: {error.text}") from error
    return _decode(kind, data, address)


def _decode(kind: type[_Answer], data: bytes, address: str) -> _Answer:
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise backend_failed(address, "its answer cannot be decoded") from error
