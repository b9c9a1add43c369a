"""What the suffix of a file's name means: the one table of it, for the gateway, the scan and the formats.

The gateway imports this module, so it needs neither Spark nor Arrow.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

TEXT_DELIMITERS: Mapping[str, str] = MappingProxyType({".csv": ",", ".tsv": "\t", ".psv": "|", ".tbl": "|"})
"""Text files by suffix, and what stands between their fields. ``.txt`` is missing: it names no delimiter."""

SUFFIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": tuple(TEXT_DELIMITERS),
        "json": (".json", ".jsonl", ".ndjson"),
        "parquet": (".parquet", ".pq"),
        "orc": (".orc",),
        "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
    }
)
"""The suffixes of Lodge's own formats, by the format's name."""

COMPRESSIONS: Mapping[str, str] = MappingProxyType({".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"})
"""Suffixes that may follow the one that chooses the format, with pyarrow's name for the compression."""


def suffix_of(path: str) -> str:
    """The suffix that chooses the format, in lower case: the last one of the name that is no compression."""
    name = PurePosixPath(path.lower())
    return PurePosixPath(name.stem).suffix if name.suffix in COMPRESSIONS else name.suffix
