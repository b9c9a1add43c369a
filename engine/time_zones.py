"""Time zones of Spark as time zones of Arrow.

Spark accepts all names that Java knows. Arrow knows the names of the time zone database, and offsets such as
``+02:00``.

| name in Spark | zone |
| --- | --- |
| a name of the time zone database, such as ``Europe/Berlin`` or ``Etc/GMT+5`` | the same |
| ``Z``, ``UT`` | ``UTC`` |
| ``+2``, ``+0200``, ``+02:00``, also after ``UTC``, ``GMT`` or ``UT`` | the offset |
| the old abbreviations of Java, such as ``PST`` | as in Java: a place, or for ``EST``, ``MST`` and ``HST`` an offset |

Offsets with seconds and the names ``SystemV/…`` are refused.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?", re.ASCII)
_MAX_OFFSET_MINUTES: Final = 18 * 60
"""The largest offset in Java."""

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Z": "UTC",
        "UT": "UTC",
        "ACT": "Australia/Darwin",
        "AET": "Australia/Sydney",
        "AGT": "America/Argentina/Buenos_Aires",
        "ART": "Africa/Cairo",
        "AST": "America/Anchorage",
        "BET": "America/Sao_Paulo",
        "BST": "Asia/Dhaka",
        "CAT": "Africa/Harare",
        "CNT": "America/St_Johns",
        "CST": "America/Chicago",
        "CTT": "Asia/Shanghai",
        "EAT": "Africa/Addis_Ababa",
        "ECT": "Europe/Paris",
        "EST": "-05:00",
        "HST": "-10:00",
        "IET": "America/Indiana/Indianapolis",
        "IST": "Asia/Kolkata",
        "JST": "Asia/Tokyo",
        "MIT": "Pacific/Apia",
        "MST": "-07:00",
        "NET": "Asia/Yerevan",
        "NST": "Pacific/Auckland",
        "PLT": "Asia/Karachi",
        "PNT": "America/Phoenix",
        "PRT": "America/Puerto_Rico",
        "PST": "America/Los_Angeles",
        "SST": "Pacific/Guadalcanal",
        "VST": "Asia/Ho_Chi_Minh",
    }
)


def to_arrow_zone(name: str) -> str:
    """Return the name of a time zone in Arrow.

    Raises:
        ValueError: If there is no such time zone.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is None:
        zone = _NAMES.get(name, name)
    else:
        hours, minutes = int(offset["hours"]), int(offset["minutes"] or 0)
        if minutes > 59 or hours * 60 + minutes > _MAX_OFFSET_MINUTES:
            raise ValueError("is not an offset between -18:00 and +18:00")
        zone = f"{offset['sign']}{hours:02}:{minutes:02}"
    try:
        pc.assume_timezone(pa.nulls(1, pa.timestamp("us")), zone)  # a scalar would import pandas
    except pa.ArrowInvalid:
        raise ValueError("is not a time zone, such as Europe/Berlin or +02:00") from None
    return zone
