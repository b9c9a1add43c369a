"""What ``EXPLAIN`` says about scans: their files, who reads them, and where the schema comes from.

Spark shows a scan only as ``BatchScan lodge``. The text of this module follows Spark's plan.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql.connect.proto import relations_pb2

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
        relation: The relation of the scan in the statement.
        of_engine: The data source with which the engine would read all files of the scan.
    """

    name: str
    facts: Sequence[tuple[str, str]]
    relation: relations_pb2.Relation
    of_engine: relations_pb2.Read.DataSource

    def with_pruned_files(self, files: int, size_bytes: int) -> Self:
        """Return the summary with the number and the size of the files that conditions exclude."""
        return self._with_pruned(_describe_size(files, size_bytes))

    def with_counted_files(self, files: int, size_bytes: int) -> Self:
        """Return the summary with the number and the size of the files that the engine would exclude by conditions.

        Spark's own reader may exclude more files. Therefore the summary does not say that it excludes none.
        """
        if self.is_of_engine:
            return self.with_pruned_files(files, size_bytes)
        return self._with_pruned(f"at least {_describe_size(files, size_bytes)}") if files else self

    @property
    def is_of_engine(self) -> bool:
        """Whether the engine reads all files."""
        return self.relation.HasField("read")

    def _with_pruned(self, text: str) -> Self:
        of_files, *others = self.facts
        return replace(self, facts=(of_files, ("Pruned", text), *others))


def summarize_plan(
    relation: relations_pb2.Relation,
    of_engine: relations_pb2.Read.DataSource,
    source: ScanSource,
    files: Sequence[ListedFile],
    sampled: Sequence[ListedFile],
    *,
    examined: int,
    split: FileSplit | None,
) -> ScanSummary:
    """Return the summary of a scan that the gateway has planned.

    Args:
        relation: The relation of the scan.
        of_engine: The data source with which the engine would read all files.
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
        relation,
        of_engine,
    )


def summarize_unplanned(relation: relations_pb2.Relation, source: ScanSource) -> ScanSummary:
    """Return the summary of a scan whose files Spark lists.

    Args:
        relation: The relation of the scan.
        source: The scan.
    """
    is_declared = bool(relation.read.data_source.schema)
    return ScanSummary(
        _name(source),
        (
            ("Files", "listed by the backend"),
            ("Readers", "Lodge"),
            ("Schema", "declared" if is_declared else "discovered by the backend"),
        ),
        relation,
        relation.read.data_source,
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
