"""What ``EXPLAIN`` says about scans: their files, who reads them, and where the schema comes from.

Spark shows a scan only as ``BatchScan lodge``. The text of this module follows Spark's plan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.scan_source import ScanSource
from engine.storage.listed_file import ListedFile
from gateway.scans.spark_readers import FileSplit
from gateway.sql.name_syntax import quote_name

_TITLE = "== Lodge Scans =="
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class ScanSummary:
    """What is known about a scan before Spark executes it.

    Attributes:
        name: The name of the scan in SQL.
        facts: The properties of the scan, each with its text.
    """

    name: str
    facts: Sequence[tuple[str, str]]


def summarize_plan(
    source: ScanSource,
    files: Sequence[ListedFile],
    sampled: Sequence[ListedFile],
    *,
    examined: int,
    split: FileSplit | None,
) -> ScanSummary:
    """Return the summary of a scan that the gateway has planned.

    Args:
        source: The scan.
        files: All files of the scan.
        sampled: The files from which the schema comes.
        examined: How many of these were examined for this statement. The schemas of the others were remembered.
        split: The files by reader. None if the engine reads all files.
    """
    readers = [("Lodge", files if split is None else split.of_engine)]
    if split is not None:
        readers.append(("Spark", split.of_spark))
    origin = (
        f"discovered in {_count(len(sampled), 'file')}: {examined:,} examined, {len(sampled) - examined:,} remembered"
    )
    return ScanSummary(
        _name(source),
        (
            ("Files", _describe(files)),
            ("Readers", ", ".join(f"{reader} {_describe(read)}" for reader, read in readers if read)),
            ("Schema", origin),
        ),
    )


def summarize_unplanned(source: ScanSource, *, is_declared: bool) -> ScanSummary:
    """Return the summary of a scan whose files Spark lists.

    Args:
        source: The scan.
        is_declared: Whether the statement declares the schema.
    """
    return ScanSummary(
        _name(source),
        (
            ("Files", "listed by the backend"),
            ("Readers", "Lodge"),
            ("Schema", "declared" if is_declared else "discovered by the backend"),
        ),
    )


def describe_scans(scans: Iterable[ScanSummary]) -> str:
    """Return the text about scans that follows the plan of Spark. Empty without scans."""
    lines = []
    for scan in scans:
        lines.append(scan.name)
        lines.extend(f"{_INDENT}{fact}: {text}" for fact, text in scan.facts)
    return "\n".join(["", _TITLE, *lines, ""]) if lines else ""


def _name(source: ScanSource) -> str:
    return f"{source.workspace}.{quote_name(source.path)}"


def _describe(files: Sequence[ListedFile]) -> str:
    return _describe_size(len(files), sum(file.size_bytes for file in files))


def _describe_size(files: int, size_bytes: int) -> str:
    return f"{_count(files, 'file')} ({_count(size_bytes, 'byte')})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
