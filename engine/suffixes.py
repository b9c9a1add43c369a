"""The meaning of file name suffixes, for the gateway, the scan and the formats.

This module does not import Spark or Arrow, because the gateway imports it.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

TEXT_DELIMITERS: Mapping[str, str] = MappingProxyType({".csv": ",", ".tsv": "\t", ".psv": "|", ".tbl": "|"})
"""The delimiters of text files by suffix. ``.txt`` is absent because it does not imply a delimiter."""

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
"""The suffixes of compressed files, each with pyarrow's name for the codec.

A compression suffix follows the suffix of the format.
"""


def suffix_of(path: str) -> str:
    """Return the suffix that determines the format, in lower case.

    This is the last suffix that is not a compression suffix.
    """
    name = _name(path.lower())
    suffix = _last_suffix(name)
    return _last_suffix(name.removesuffix(suffix)) if suffix in COMPRESSIONS else suffix


def compression_of(path: str) -> str | None:
    """Return the codec for the last suffix of a path, ignoring case.

    Return None if the file is not compressed.
    """
    return COMPRESSIONS.get(_last_suffix(_name(path)).lower())


def _name(path: str) -> str:
    """Return the name of a file. Path objects are used only where they make a difference, because they take longer."""
    name = path.rpartition("/")[2]
    return PurePosixPath(path).name if name in {"", "."} else name


def _last_suffix(name: str) -> str:
    dot = name.rfind(".")
    return name[dot:] if 0 < dot < len(name) - 1 else ""
