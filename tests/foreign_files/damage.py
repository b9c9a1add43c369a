"""Changes random bytes of a file, often where a reader finds out what the other bytes mean."""

import io
from dataclasses import dataclass
from random import Random

import pyarrow as pa
from pyarrow import orc, parquet

_HEADER_BYTES = 24
"""Most page headers are no longer, unless they contain statistics."""
_ORC_STRIPE_FOOTER_BYTES = 200


@dataclass(frozen=True, slots=True)
class Damage:
    """A change of bytes.

    Attributes:
        place: The part of the file: ``anywhere``, ``footer`` or ``headers``.
        kind: What happened: ``set``, ``flip``, ``insert``, ``cut`` or ``end``.
        at: The first byte that changed.
    """

    place: str
    kind: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind} at {self.at} ({self.place})"


class Damager:
    """Damages a file again and again, each time beginning with its original bytes.

    Args:
        content: The bytes of the file.
        suffix: The suffix of the file, for example ``.orc``.
    """

    def __init__(self, content: bytes, suffix: str) -> None:
        self._content = content
        self._places = {"anywhere": range(len(content))} | _find_places(content, suffix)

    def damage(self, chosen: Random) -> tuple[bytes, list[Damage]]:
        """Return the bytes of a damaged file, and its damages."""
        data, damages = self._content, []
        for _ in range(chosen.choice((1, 1, 1, 2, 4))):
            place = chosen.choice(sorted(self._places))
            places = self._places[place]
            at = places[chosen.randrange(len(places))] if places else 0
            kind = chosen.choice(("set", "set", "flip", "flip", "flip", "insert", "cut", "end"))
            if kind == "end" and place != "anywhere":
                kind = "flip"
            data = _change(data, kind, min(at, max(len(data) - 1, 0)), chosen)
            damages.append(Damage(place, kind, at))
        return data, damages


def _change(data: bytes, kind: str, at: int, chosen: Random) -> bytes:
    length = chosen.choice((1, 1, 1, 2, 4))
    new = bytes(chosen.choice((0, 1, 0x7F, 0x80, 0xFF, chosen.randrange(256))) for _ in range(length))
    match kind:
        case "set":
            return data[:at] + new + data[at + length :]
        case "flip":
            return data[:at] + bytes(each ^ 1 << chosen.randrange(8) for each in data[at : at + 1]) + data[at + 1 :]
        case "insert":
            return data[:at] + new + data[at:]
        case "cut":
            return data[:at] + data[at + length :]
        case _:
            return data[:at]


def _find_places(content: bytes, suffix: str) -> dict[str, list[int]]:
    """Return the positions of the footer and of the headers of pages. Empty if Arrow cannot read them."""
    try:
        if suffix == ".parquet":
            return _places_of_parquet(content)
        if suffix == ".orc":
            return _places_of_orc(content)
    except (pa.ArrowException, OSError):
        return {}
    footer = list(range(max(len(content) - 600, 0), len(content)))
    return {"headers": list(range(min(600, len(content)))), "footer": footer} if content else {}


def _places_of_parquet(content: bytes) -> dict[str, list[int]]:
    metadata = parquet.read_metadata(io.BytesIO(content))
    begin = max(len(content) - 8 - metadata.serialized_size, 0)
    starts = []
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            starts += [column.data_page_offset, column.dictionary_page_offset]
    headers = [at for start in starts if start for at in range(start, min(start + _HEADER_BYTES, begin))]
    places = {"footer": list(range(begin, len(content)))}
    return places | ({"headers": headers} if headers else {})


def _places_of_orc(content: bytes) -> dict[str, list[int]]:
    file = orc.ORCFile(io.BytesIO(content))
    tail = 1 + file.file_postscript_length + file.file_footer_length
    begin = max(len(content) - tail, 0)
    end_of_stripe = max(begin - file.stripe_statistics_length, 0)
    stripe_footer = list(range(max(end_of_stripe - _ORC_STRIPE_FOOTER_BYTES, 3), end_of_stripe))
    places = {"footer": list(range(begin, len(content)))}
    return places | ({"headers": stripe_footer} if stripe_footer else {})
