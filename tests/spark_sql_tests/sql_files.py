"""The files of Spark's SQL tests, and which of them can run here.

A file is read as ``SQLQueryTestSuite`` of Spark reads it: ``--IMPORT`` adds the statements of another file before its
own, ``--SET`` and ``--CONFIG_DIM`` set the settings of the session, and the directory sets further settings. Of several
``--CONFIG_DIM`` lines with one number, the first applies.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.golden.corpus import fetch_test_jar

_INPUTS = "sql-tests/inputs/"
_TEST_DATA = "test-data/postgresql/"
_END = re.compile(r"(?<=[^\\]);")
_DIMENSION = re.compile(r"--CONFIG_DIM(\d*) ")
_DELIMITER = "--QUERY-DELIMITER"
_SKIPPED_DIRECTORIES = ("udf/", "udaf/", "udtf/")
_SKIPPED_FILES = ("ignored.sql",)
_QUICK = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings with which small queries take half the time. Lodge affects neither generated code nor tasks."""

_FUNCTIONS_OF_POSTGRESQL = (
    "create temporary function booleq(a boolean, b boolean) returns boolean return a = b",
    "create temporary function boolne(a boolean, b boolean) returns boolean return a <> b",
    "create temporary function vol(s string) returns string return s",
)


@dataclass(frozen=True, slots=True)
class SqlFile:
    """A file of Spark's SQL tests.

    Attributes:
        name: The path below the directory of the inputs.
        statements: The statements.
        settings: The settings of its session.
        setup: Statements that run first. Their results are not compared.
    """

    name: str
    statements: Sequence[str]
    settings: Mapping[str, str]
    setup: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SqlFiles:
    """All files of Spark's SQL tests.

    Attributes:
        files: Those that can run.
        skipped: The names of the others with the reason.
    """

    files: Sequence[SqlFile]
    skipped: Mapping[str, str]


def read_files() -> SqlFiles:
    """Return all files. The first call fetches Spark's jar for tests.

    Raises:
        MissingMavenError: Maven is not installed.
        CalledProcessError: Maven failed.
    """
    with zipfile.ZipFile(fetch_test_jar()) as archive:
        texts = {
            name.partition(_INPUTS)[2]: archive.read(name).decode()
            for name in sorted(archive.namelist())
            if _INPUTS in name and name.endswith(".sql")
        }
    skipped = {name: reason for name in texts if (reason := _reason_to_skip(name))}
    return SqlFiles([parse_file(name, texts) for name in texts if name not in skipped], skipped)


def extract_test_data(directory: Path) -> Path:
    """Extract the data of the test tables, and return its directory."""
    with zipfile.ZipFile(fetch_test_jar()) as archive:
        for name in archive.namelist():
            if name.startswith(_TEST_DATA) and not name.endswith("/"):
                archive.extract(name, directory)
    return directory / _TEST_DATA


def _reason_to_skip(name: str) -> str:
    if name.startswith(_SKIPPED_DIRECTORIES):
        return "needs Python and Scala functions that only the test suite of Spark registers"
    if name in _SKIPPED_FILES:
        return "the test suite of Spark ignores it"
    return ""


def parse_file(name: str, texts: Mapping[str, str]) -> SqlFile:
    """Return the file with a name. The texts are those of all files by name."""
    comments, code = _split_comments(texts[name])
    imports = [line.removeprefix("--IMPORT ").strip() for line in comments if line.startswith("--IMPORT ")]
    imported = [line for each in imports if each in texts for line in _split_comments(texts[each])[1]]
    settings = dict(_settings_of_directory(name))
    settings |= _assignments(_first_dimensions(comments))
    settings |= _QUICK
    settings |= _assignments(line.removeprefix("--SET ") for line in comments if line.startswith("--SET "))
    setup = _FUNCTIONS_OF_POSTGRESQL if name.startswith("postgreSQL/") else ()
    return SqlFile(name, list(_split_statements([*imported, *code])), settings, setup)


def _split_comments(text: str) -> tuple[list[str], list[str]]:
    comments, code = [], []
    for line in text.split("\n"):
        is_comment = line.strip().startswith("--") and not line.strip().startswith(_DELIMITER)
        (comments if is_comment else code).append(line)
    return comments, code


def _split_statements(lines: Sequence[str]) -> Iterator[str]:
    """Yield the statements. A query between delimiters is one statement, even if it contains semicolons."""
    parts: list[list[str]] = [[]]
    delimited = set[int]()
    for line in lines:
        if line.strip().startswith(f"{_DELIMITER}-START"):
            parts.append([])
            delimited.add(len(parts) - 1)
        elif line.strip().startswith(f"{_DELIMITER}-END"):
            parts.append([])
        else:
            parts[-1].append(line)
    for number, part in enumerate(parts):
        text = "\n".join(part)
        for each in [text.removesuffix(";")] if number in delimited else _END.split(text):
            statement = "\n".join(line for line in each.strip().split("\n") if not line.startswith("--")).strip()
            if statement:
                yield statement


def _settings_of_directory(name: str) -> Iterator[tuple[str, str]]:
    yield "spark.sql.session.timeZone", "America/Los_Angeles"
    yield "spark.sql.ansi.enabled", str(not name.startswith("nonansi/")).lower()
    if name.startswith("postgreSQL/"):
        yield "spark.sql.legacy.interval.enabled", "true"
    if name.startswith("timestampNTZ/"):
        yield "spark.sql.timestampType", "TIMESTAMP_NTZ"


def _first_dimensions(comments: Sequence[str]) -> Iterator[str]:
    seen = set[str]()
    for line in comments:
        if (matched := _DIMENSION.match(line)) and matched[1] not in seen:
            seen.add(matched[1])
            yield line[matched.end() :]


def _assignments(lists: Iterator[str]) -> dict[str, str]:
    pairs = (each.partition("=") for line in lists for each in line.split(","))
    return {key.strip(): value.strip() for key, _, value in pairs}
