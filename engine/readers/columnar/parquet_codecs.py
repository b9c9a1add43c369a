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

_PATH_OF_ONE_NAME: Final = re.compile(
    rb"\x1c\x15[\x00-\x0e]"  # the field meta_data, and its field type
    rb"\x19[\x05\x15\x25\x35\x45\x55\x65\x75\x85\x95\xa5\xb5\xc5\xd5\xe5][\x00-\x12]*"  # its encodings, up to 14
    rb"\x19\x18([\x80-\xff]{0,4}[\x00-\x7f])"  # its path_in_schema, a list of one text, and the length of this text
)
_CODEC, _NUM_VALUES = b"\x15", b"\x16"


def read_codecs(footer: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the name of the column and the number of the codec of each column chunk.

    Chunks of columns in structs, lists and maps are left out.

    Args:
        footer: The ``FileMetaData``, as in the file.
    """
    for found in _PATH_OF_ONE_NAME.finditer(footer):
        start = found.end()
        end = start + read_varint(found[1], 0)[0]
        if footer[end : end + 1] == _CODEC and footer[end + 2 : end + 3] == _NUM_VALUES:
            yield footer[start:end], footer[end + 1] >> 1
