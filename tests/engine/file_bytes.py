"""Files of pyarrow's formats as bytes."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import ipc


def written(write: Callable[..., None], table: pa.Table, **how: Any) -> bytes:
    """Return the file that one of pyarrow's writers writes."""
    sink = io.BytesIO()
    write(table, sink, **how)
    return sink.getvalue()


def write_stream(table: pa.Table, sink: io.BytesIO, **how: Any) -> None:
    """Write a table as an Arrow IPC stream."""
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, **how)


def compressed(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()
