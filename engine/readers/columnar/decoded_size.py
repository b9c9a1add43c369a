"""The size of encoded arrays after decoding, which is known before they are decoded.

Dictionaries, runs and views share values between rows. A batch of a few bytes can therefore decode to terabytes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from engine.arrow_types import is_bytes, is_text
from engine.result_set.storage_types import to_storage_type

MAX_DECODED_BYTES = 64 * 1024 * 1024

_VIEW_BYTES = 16
_VIEW_WORDS = _VIEW_BYTES // 4


def bounded_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in parts that decode to at most ``MAX_DECODED_BYTES``, or consist of one row."""
    if all(to_storage_type(type_) == type_ for type_ in batch.schema.types):
        yield batch
        return
    pending = [batch]
    while pending:
        part = pending.pop()
        if part.num_rows < 2 or sum(map(decoded_bytes, part.columns)) <= MAX_DECODED_BYTES:
            yield part
        else:
            middle = part.num_rows // 2
            pending += [part.slice(middle), part.slice(0, middle)]


def decoded_bytes(array: pa.Array) -> int:
    """Return an upper bound of the size of an array after decoding. Plain arrays count as nothing."""
    type_ = array.type
    if pt.is_dictionary(type_):
        sizes = _value_sizes(array.dictionary)
        return int(pc.sum(pc.take(sizes, array.indices)).as_py() or 0)
    if pt.is_run_end_encoded(type_):
        return len(array) * int(pc.max(_value_sizes(array.values)).as_py() or 0)
    if pt.is_string_view(type_) or pt.is_binary_view(type_):
        return int(_view_lengths(array).sum())
    if pt.is_list_view(type_) or pt.is_large_list_view(type_):
        elements = int(pc.sum(pc.list_value_length(array)).as_py() or 0)
        return elements * _largest_value(array.values)
    return sum(map(decoded_bytes, _children(array)))


def _children(array: pa.Array) -> Sequence[pa.Array]:
    type_ = array.type
    if pt.is_map(type_):
        return [array.keys, array.items]
    if pt.is_struct(type_):
        children: Sequence[pa.Array] = array.flatten()
        return children
    return [array.flatten()] if pt.is_nested(type_) and not pt.is_union(type_) else []


def _value_sizes(values: pa.Array) -> pa.Array:
    """Return the size of each value, as integers of 64 bits."""
    type_ = values.type
    if pt.is_string_view(type_) or pt.is_binary_view(type_):
        return pa.array(_view_lengths(values), pa.int64())
    if is_text(type_) or is_bytes(type_):
        return pc.fill_null(pc.binary_length(values).cast(pa.int64()), 0)
    return pa.array(np.full(len(values), _largest_value(values), np.int64))


def _largest_value(values: pa.Array) -> int:
    """Return an upper bound of the size of each value of an array."""
    try:
        return max(int(values.type.bit_width) // 8, 1)
    except ValueError:  # values of this type have no common width
        return int(values.get_total_buffer_size()) + decoded_bytes(values)


def _view_lengths(array: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    views = array.buffers()[1]
    if views is None:
        return np.zeros(0, np.int64)
    words = np.frombuffer(views, np.int32)[array.offset * _VIEW_WORDS : (array.offset + len(array)) * _VIEW_WORDS]
    lengths = words[::_VIEW_WORDS].astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths
