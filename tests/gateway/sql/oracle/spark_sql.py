"""What Spark's own lexer and parser read in SQL texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.java_reader import JARS, JavaReader

TABLE_KIND, COMMON_KIND = "TABLE", "COMMON"
"""The kinds of names that are read as tables, and of names of common table expressions."""

_SOURCE = Path(__file__).with_name("SparkSqlReader.java")
_BATCH = 50
_HEAP_MIB = 2048  # the parser keeps what it has learned about the grammar


class SparkToken(NamedTuple):
    """A token, with the name of its kind in Spark's grammar and its offsets."""

    kind: str
    start: int
    end: int


class SparkReading(NamedTuple):
    """What Spark reads in a text.

    Attributes:
        tokens: The tokens, without comments and spaces.
        names: The kinds of plan nodes that contain a name, by the parts of the name. None if Spark refuses the text.
    """

    tokens: Sequence[SparkToken]
    names: Mapping[tuple[str, ...], set[str]] | None


class SparkSqlReader(JavaReader):
    """A Java process that reads SQL texts with Spark's classes."""

    def __init__(self) -> None:
        super().__init__(_SOURCE, f"{JARS}/*", heap_mib=_HEAP_MIB, lines=2)

    def read(self, texts: Sequence[str]) -> list[SparkReading]:
        """Return what Spark reads in each text."""
        batches = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
        return [
            SparkReading(_parse_tokens(tokens), _parse_names(names))
            for batch in batches
            for tokens, names in self.ask([[text.encode()] for text in batch])
        ]


def _parse_tokens(line: str) -> Sequence[SparkToken]:
    fields = (each.split(":") for each in line.split())
    return [SparkToken(kind, int(start), int(end)) for kind, start, end in fields]


def _parse_names(line: str) -> Mapping[tuple[str, ...], set[str]] | None:
    if line == "refused":
        return None
    names: dict[tuple[str, ...], set[str]] = {}
    for each in line.split():
        kind, _, parts = each.partition(":")
        names.setdefault(tuple(bytes.fromhex(part).decode() for part in parts.split(".")), set()).add(kind)
    return names
