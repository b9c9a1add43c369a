"""The meaning of file name suffixes, for the gateway, the scan and the formats.

The gateway imports this module, so it depends on neither Spark nor Arrow.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

TEXT_DELIMITERS: Mapping[str, str] = MappingProxyType({".csv": ",", ".tsv": "\t", ".psv": "|", ".tbl": "|"})
"""The delimiters of text files by suffix. ``.txt`` is absent because it implies no delimiter."""

SUFFIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": tuple(TEXT_DELIMITERS),
        "json": (".json", ".jsonl", ".ndjson"),
        "parquet": (".parquet", ".pq"),
        "orc": (".orc",),
        "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
    }
)
"""The suffixes of the built-in formats, by the name of the format."""

COMPRESSIONS: Mapping[str, str] = MappingProxyType({".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"})
"""The suffixes of compressed files, each with pyarrow's name of the codec. They follow the suffix of the format."""


def suffix_of(path: str) -> str:
    """Return the suffix that chooses the format, in lower case: the last one that names no compression."""
    name = PurePosixPath(path.lower())
    return PurePosixPath(name.stem).suffix if name.suffix in COMPRESSIONS else name.suffix


def compression_of(path: str) -> str | None:
    """Return the codec that the last suffix names, in any letter case; None if the file is not compressed."""
    return COMPRESSIONS.get(PurePosixPath(path).suffix.lower())
