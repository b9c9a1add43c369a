"""The options of a scan that do not depend on the format, and the validation of all options."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ByteSize, ConfigDict, Field, PositiveInt, ValidationError, field_validator

from engine.errors import ScanOptionError
from engine.scan_source import SOURCE_OPTIONS

_MIN_PARTITION_BYTES = 64 * 1024
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?", re.ASCII)


class ScanOptions(BaseModel):
    """Options of every scan, independent of the format."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str | None = Field(
        None, description="The format of all files. By default, the suffix of each file determines its format."
    )
    time_zone: str = Field(
        "UTC",
        description="The time zone for the conversion of text to timestamps, if the text has no offset. Lodge sets "
        "this option to the session's time zone when the statement starts.",
    )
    discovery: Literal["all", "sample", "first"] = Field(
        "all",
        description="The files whose schemas Lodge merges into the schema of the scan: all files, a sample, or only "
        "the first file.",
    )
    sample_files: PositiveInt = Field(
        10, description="The number of files in a sample, spread evenly over the list of files."
    )
    partition_bytes: ByteSize | None = Field(
        None,
        ge=_MIN_PARTITION_BYTES,
        description="The number of bytes that one task reads. A task reads several small files, or a split of a large "
        "file. The default depends on the total size of all files, and is between 16 and 64 MiB.",
    )

    @field_validator("time_zone")
    @classmethod
    def _to_arrow_zone(cls, value: str) -> str:
        """Convert a time zone to the form that Arrow uses.

        Spark accepts all forms that Java supports, such as ``GMT+2`` and ``Z``.
        """
        offset = _OFFSET.fullmatch(value)
        if offset is not None:
            value = f"{offset['sign']}{int(offset['hours']):02}:{offset['minutes'] or '00'}"
        zone = "UTC" if value == "Z" else value
        try:
            pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), zone)
        except pa.ArrowInvalid:
            raise ValueError("is not a time zone, such as Europe/Berlin or +02:00") from None
        return zone


def split_options(options: Mapping[str, str]) -> tuple[ScanOptions, dict[str, str]]:
    """Split the options of the data source into options of the scan and options of the reader.

    Raises:
        ScanOptionError: If an option of the scan is invalid.
    """
    given = {key.lower(): value for key, value in options.items() if key.lower() not in SOURCE_OPTIONS}
    own = {key: value for key, value in given.items() if key in ScanOptions.model_fields}
    return validate_options(ScanOptions, own), {key: value for key, value in given.items() if key not in own}


def validate_options(model: type[BaseModel], options: Mapping[str, str]) -> Any:
    """Validate the options, and return them as an instance of the given class.

    Raises:
        ScanOptionError: If an option is unknown, missing or invalid. The message contains the option. For an unknown
            option, the message also lists all supported options.
    """
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]) if first["loc"] else "options"
        if first["type"] == "extra_forbidden":
            known = ", ".join(sorted(model.model_fields))
            raise ScanOptionError(option, f"is unknown; the options are {known}") from None
        if first["type"] == "missing":
            raise ScanOptionError(option, "is missing, but files of this format require it") from None
        raise ScanOptionError(option, f"cannot be {first['input']!r}: {first['msg']}") from None
