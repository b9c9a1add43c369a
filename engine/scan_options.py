"""How a scan is to be read: the options of the scan itself, apart from those of its reader."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ByteSize, ConfigDict, Field, PositiveInt, ValidationError, field_validator

from engine.errors import ScanOptionError
from engine.scan_source import SOURCE_OPTIONS

_LEAST_PARTITION_BYTES = 64 * 1024
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?", re.ASCII)


class ScanOptions(BaseModel):
    """Options of a scan, whatever the format of its files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str | None = Field(None, description="The reader of all files; by default each file's suffix chooses.")
    time_zone: str = Field(
        "UTC",
        description="Of text that a declared schema makes a timestamp, where it names no offset of its own. Through "
        "Lodge it is the session's, as it is when the statement begins.",
    )
    discovery: Literal["all", "sample", "first"] = Field(
        "all",
        description="Whose schemas make the scan's schema: those of all files, of a sample or of the first file.",
    )
    sample_files: PositiveInt = Field(10, description="How many files a sample has, spread evenly over the list.")
    partition_bytes: ByteSize | None = Field(
        None,
        ge=_LEAST_PARTITION_BYTES,
        description="What one task reads: small files together, large ones in parts. By default a share of all files, "
        "between 16 and 64 MiB.",
    )

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        """As Arrow writes it: a session's may be any that Java understands, such as ``GMT+2`` and ``Z``."""
        offset = _OFFSET.fullmatch(value)
        if offset is not None:
            value = f"{offset['sign']}{int(offset['hours']):02}:{offset['minutes'] or '00'}"
        zone = "UTC" if value == "Z" else value
        try:
            pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), zone)
        except pa.ArrowInvalid:
            raise ValueError("is no time zone, such as Europe/Berlin or +02:00") from None
        return zone


def split_options(options: Mapping[str, str]) -> tuple[ScanOptions, dict[str, str]]:
    """The options of the scan, and those left for the reader, from all that a data source was given.

    Raises:
        ScanOptionError: An option of the scan is not valid.
    """
    given = {key.lower(): value for key, value in options.items() if key.lower() not in SOURCE_OPTIONS}
    own = {key: value for key, value in given.items() if key in ScanOptions.model_fields}
    return validated(ScanOptions, own), {key: value for key, value in given.items() if key not in own}


def validated(model: type[BaseModel], options: Mapping[str, str]) -> Any:
    """The options as an instance of their typed class.

    Raises:
        ScanOptionError: One is unknown, missing or not valid; the message names it and, if it is unknown, those there
            are.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]) if first["loc"] else "options"
        if first["type"] == "extra_forbidden":
            raise ScanOptionError(option, f"is unknown; there are {', '.join(sorted(model.model_fields))}") from None
        if first["type"] == "missing":
            raise ScanOptionError(option, "is missing, and files of this format need it") from None
        raise ScanOptionError(option, f"cannot be {first['input']!r}: {first['msg']}") from None
