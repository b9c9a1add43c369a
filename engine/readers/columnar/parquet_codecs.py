"""The compression of the columns of a Parquet file.

pyarrow terminates the process if it is asked for the compression, and the metadata of the columns are corrupt. The
codecs are therefore found in the bytes of the footer: each column chunk of a row group has a ``ColumnMetaData``, whose
first fields are the type, the encodings, the path and the codec [parquet-format].

Not guaranteed: a chunk is found only if the program that wrote the file encoded these fields in this order and in the
shortest form. All known programs do so. Bytes of a corrupt file, or of its statistics, can look like a chunk.
"""

import re
from collections.abc import Iterator
from typing import Final

from engine.readers.columnar.orc_tail import read_varint

_PATH: Final = re.compile(
    rb"\x1c\x15[\x00-\x0e]"  # the field meta_data, and its field type
    rb"\x19[\x05\x15\x25\x35\x45\x55\x65\x75\x85\x95\xa5\xb5\xc5\xd5\xe5][\x00-\x12]*"  # its encodings, up to 14
    rb"\x19([\x18\x28\x38\x48\x58\x68\x78\x88\x98\xa8\xb8\xc8\xd8\xe8])"  # its path_in_schema, a list of up to 14 texts
)
_CODEC, _NUM_VALUES = b"\x15", b"\x16"


def read_codecs(footer: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the path of the column, with dots between its names, and the number of the codec of each column chunk.

    Chunks of columns whose path has more than 14 names are left out.

    Args:
        footer: The ``FileMetaData``, as in the file.
    """
    for found in _PATH.finditer(footer):
        names = []
        end = found.end()
        try:
            for _ in range(found[1][0] >> 4):
                length, start = read_varint(footer, end)
                end = start + length
                names.append(footer[start:end])
        except IndexError:
            continue
        if footer[end : end + 1] == _CODEC and footer[end + 2 : end + 3] == _NUM_VALUES:
            yield b".".join(names), footer[end + 1] >> 1
