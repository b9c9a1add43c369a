"""Decodes rows that a backend has sent.

A backend is another trust domain: with a backend for each principal, a principal controls what it sends. Arrow's
decoder trusts offsets and lengths in the data, so a false one reads memory of this process or ends it.

Guarantees:

1. Only the expected number of columns is decoded. Their types are checked before any row is read. Dictionaries and
   compressed data are refused.
2. Data of more than ``max_bytes`` or ``max_rows``, or in too many batches, are refused before they are decoded.
3. Each batch is validated completely before a value is read.

Source: [arrow-ipc].
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

Kind = Callable[[pa.DataType], bool]
"""Whether a type is allowed for a column."""

MAX_BYTES: Final = 128 * 1024 * 1024
MAX_ROW_BYTES: Final = 64 * 1024
"""The maximum size of all messages of an answer with one row, such as a number."""

_MAX_EMPTY_BATCHES = 16

_MESSAGE_HEADER, _BODY_COMPRESSION = 2, 3
"""The numbers of fields in the tables ``Message`` and ``RecordBatch`` of Arrow's metadata."""


def is_text(kind: pa.DataType) -> bool:
    """Return whether the values of a type are texts."""
    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_boolean(kind: pa.DataType) -> bool:
    """Return whether the values of a type are true or false."""
    return bool(types.is_boolean(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether the values of a type are bytes."""
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def is_integer(kind: pa.DataType) -> bool:
    """Return whether the values of a type are integers."""
    return bool(types.is_integer(kind))


def is_integers(kind: pa.DataType) -> bool:
    """Return whether the values of a type are lists of integers."""
    return bool((types.is_list(kind) or types.is_large_list(kind)) and types.is_integer(kind.value_type))


class BackendRowsError(Exception):
    """Raised if rows of a backend are not what they should be."""


def decode_rows(
    data: bytes, columns: Mapping[str, Kind], *, max_rows: int, max_bytes: int = MAX_BYTES, max_values: int = 0
) -> list[dict[str, Any]]:
    """Return rows as dictionaries.

    Args:
        data: A stream in Arrow's IPC format.
        columns: The names of the columns in the result, and which types each may have, in the order of the columns. The
            names in the data do not count.
        max_rows: The maximum number of rows.
        max_bytes: The maximum size of ``data``.
        max_values: The maximum number of values in the lists of a batch.

    Raises:
        BackendRowsError: If the data are something else.
    """
    if len(data) > max_bytes:
        raise BackendRowsError(f"The backend sent {len(data)} bytes of rows. At most {max_bytes} were expected.")
    _check_messages(data, max_rows + _MAX_EMPTY_BATCHES)
    rows: list[dict[str, Any]] = []
    try:
        with pa.ipc.open_stream(data) as stream:
            _check_schema(stream.schema, columns)
            for batch in stream:
                if len(rows) + batch.num_rows > max_rows:
                    raise BackendRowsError(f"The backend sent more than {max_rows} rows.")
                batch.validate(full=True)
                _check_lists(batch, max_values)
                values = (column.to_pylist() for column in batch.columns)
                rows += [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    except (pa.ArrowException, ValueError, OSError) as error:
        raise BackendRowsError(f"The backend sent rows that cannot be decoded: {error}") from error
    return rows


class RowReader:
    """Decodes the rows of an answer that comes in several messages, with limits for all messages together.

    Args:
        columns: The columns, as for :func:`decode_rows`.
        max_rows: The maximum number of rows.
        max_bytes: The maximum number of bytes.
        max_values: The maximum number of values in the lists of a batch.
    """

    def __init__(self, columns: Mapping[str, Kind], *, max_rows: int, max_bytes: int, max_values: int = 0) -> None:
        self._columns = columns
        self._rows_left, self._bytes_left = max_rows, max_bytes
        self._max_values = max_values

    def read(self, data: bytes) -> list[dict[str, Any]]:
        """Return the rows of the next message.

        Raises:
            BackendRowsError: If the message is something else, or the limits are exceeded.
        """
        rows = decode_rows(
            data,
            self._columns,
            max_rows=self._rows_left,
            max_bytes=self._bytes_left,
            max_values=self._max_values,
        )
        self._rows_left -= len(rows)
        self._bytes_left -= len(data)
        return rows


def _check_lists(batch: pa.RecordBatch, max_values: int) -> None:
    lists = (column for column in batch.columns if is_integers(column.type))
    if any(len(column.flatten()) > max_values for column in lists):
        raise BackendRowsError(f"The backend sent lists with more than {max_values} values.")


def _check_schema(schema: pa.Schema, columns: Mapping[str, Kind]) -> None:
    is_expected = len(schema) == len(columns) and all(
        is_allowed(field.type) for field, is_allowed in zip(schema, columns.values(), strict=True)
    )
    if not is_expected:
        shown = ", ".join(f"{field.name} {field.type}" for field in schema)[:1000]
        raise BackendRowsError(f"The backend sent the columns [{shown}]. Expected: [{', '.join(columns)}].")


def _check_messages(data: bytes, max_batches: int) -> None:
    """Refuse compressed batches, because a few bytes can decompress to any size, and too many batches.

    Raises:
        BackendRowsError: If a batch is compressed, there are too many, or the stream is malformed.
    """
    batches = 0
    try:
        reader = pa.ipc.MessageReader.open_stream(data)
        while True:
            message = reader.read_next_message()
            if message.type != "record batch":
                continue
            batches += 1
            if batches > max_batches:
                raise BackendRowsError(f"The backend sent more than {max_batches} batches of rows.")
            if _has_compression(message.metadata.to_pybytes()):
                raise BackendRowsError("The backend sent compressed rows.")
    except StopIteration:
        return
    except (pa.ArrowException, struct.error, ValueError, OSError) as error:
        raise BackendRowsError(f"The backend sent rows that cannot be decoded: {error}") from error


def _has_compression(metadata: bytes) -> bool:
    """Return whether the metadata of a record batch name a compression. They are a table of FlatBuffers."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    header = _field_position(metadata, root, _MESSAGE_HEADER)
    if header is None:
        raise ValueError("a message has no header")
    (offset,) = struct.unpack_from("<I", metadata, header)
    return _field_position(metadata, header + offset, _BODY_COMPRESSION) is not None


def _field_position(data: bytes, table: int, number: int) -> int | None:
    """Return the position of a field in a table of FlatBuffers. None if the table does not have the field."""
    (to_vtable,) = struct.unpack_from("<i", data, table)
    vtable = table - to_vtable
    if vtable < 0:
        raise ValueError("a table has no fields")
    (size_bytes,) = struct.unpack_from("<H", data, vtable)
    entry = 4 + 2 * number
    if entry + 2 > size_bytes:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + entry)
    return table + offset if offset else None
