"""The options of a scan that do not depend on the format."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.options import Boolean, ByteCount, Choice, Integer, Text, option, options_of, parse_options
from engine.scan_source import SOURCE_OPTIONS
from engine.time_zones import to_arrow_zone

_MIN_PARTITION_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """Options of every scan, independent of the format."""

    format: str | None = option(
        Text(),
        default=None,
        description="The format of all files. By default, the suffix of each file determines its format.",
    )
    time_zone: str = option(
        Text(to_arrow_zone),
        default="UTC",
        description="The time zone for the conversion of text to timestamps, if the text has no offset. Lodge sets "
        "this option to the session's time zone when the statement starts.",
    )
    discovery: Literal["all", "sample", "first"] = option(
        Choice.of(("all", "sample", "first")),
        default="all",
        description="The files whose schemas Lodge merges into the schema of the scan: all files, a sample, or only "
        "the first file.",
    )
    sample_files: int = option(
        Integer(at_least=1),
        default=10,
        description="The number of files in a sample, spread evenly over the list of files.",
    )
    partitions: bool = option(
        Boolean(),
        default=True,
        description="Whether directories named key=value give columns.",
    )
    raw_files: bool = option(
        Boolean(),
        default=False,
        description="Whether the files in a directory of a Delta, Iceberg or Hudi table may be scanned. They can "
        "contain removed rows.",
    )
    partition_bytes: int | None = option(
        ByteCount(at_least=_MIN_PARTITION_BYTES),
        default=None,
        description="The number of bytes that one task reads. A task reads several small files, or a split of a large "
        "file. Each file costs 64 KiB more, and 256 KiB in an object store or HDFS. The default depends on the total "
        "of all files, and is between 16 and 64 MiB.",
    )
    datetime_rebase: Literal["corrected", "legacy", "exception"] = option(
        Choice.of(("corrected", "legacy", "exception")),
        default="corrected",
        description="The calendar of dates and times in Parquet files that do not name the version of Spark that wrote "
        "them. With `legacy`, they are of the Julian calendar before 1582-10-15. With `exception`, the scan fails if "
        "there are such old dates or times. Lodge sets this option to the session's setting "
        "`spark.sql.parquet.datetimeRebaseModeInRead`.",
    )
    int96_rebase: Literal["corrected", "legacy", "exception"] = option(
        Choice.of(("corrected", "legacy", "exception")),
        default="corrected",
        description="The same for times of the type `INT96`. Lodge sets this option to the session's setting "
        "`spark.sql.parquet.int96RebaseModeInRead`.",
    )
    spark_readers: bool | None = option(
        Boolean(),
        default=None,
        description="Whether Spark's own reader may read files whose schema does not drift. The default is the setting "
        "`--spark-readers` of the gateway.",
    )


def split_options(options: Mapping[str, str]) -> tuple[ScanOptions, dict[str, str]]:
    """Split the options of the data source into options of the scan and options of the reader.

    Raises:
        ScanOptionError: If an option of the scan is invalid.
    """
    given = {key.lower(): value for key, value in options.items() if key.lower() not in SOURCE_OPTIONS}
    own = {key: value for key, value in given.items() if key in options_of(ScanOptions)}
    return parse_options(ScanOptions, own), {key: value for key, value in given.items() if key not in own}
