"""Damaged files: a scan refuses them, or returns the rows of the undamaged file, or what Spark's reader returns.

``python -m tests.foreign_files.damaged --count 5000`` (``make soak``) damages the files of ``files/`` in turn. The
engine reads each of them in a separate process. Spark's reader reads those for which the engine returns changed values.
Each case has a number, which repeats it: ``--first 123 --count 1``.

Some damage cannot be detected, because most files have no checksums: a changed value is still a value. Such cases are
printed for a person to judge:

- Only Spark refuses the file. For example, the name of a column changed in one of the two places that store it.
- Both read the file and return other values. For example, an integer is larger than its type, or the members of a
  struct disagree about its nulls.

Failures are lost rows, other exceptions than those of the engine, crashes, stalls and too much memory. More than one in
``LEAST_PER_DIFFERENCE`` cases with other values is a failure too.
"""

import argparse
import json
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.cluster.processes import DIES_WITH_PARENT
from tests.conftest import end, start_spark_process
from tests.engine.scan_in_process import SCAN_SECONDS
from tests.foreign_files.damage import Damager
from tests.foreign_files.plain_columns import PlainColumn, plain_columns

Columns = Mapping[str, PlainColumn]
FILES = Path(__file__).with_name("files")
FORMATS = {".parquet": "parquet", ".orc": "orc"}
SOURCES = sorted(path for path in FILES.iterdir() if path.suffix in {*FORMATS, ".arrow", ".arrows"})
MOST_BYTES = 5 << 30
"""The limit of a task (4 GiB), and what the process has before."""
STALL_SECONDS = SCAN_SECONDS + 60

LEAST_PER_DIFFERENCE = 500

REFUSED = "refused"
UNCHANGED = "rows of the undamaged file"
AS_SPARK = "rows that Spark returns too"
NO_REFERENCE = "changed values of a file that Spark cannot read undamaged"
UNDETECTED = "changed values of a file that Spark refuses"
OTHER_TYPE = "values that Spark returns too, with another type"
ARROW_CRASH = "crash inside Arrow's reader of ORC"
DIFFERENT = "values that differ from those of Spark"
FAILURES = FEWER_ROWS, UNEXPECTED, CRASHED, TOO_MUCH_MEMORY = (
    "fewer rows than before, unlike Spark",
    "an exception that is no error of the engine",
    "crash or stall",
    "too much memory",
)
PRINTED = {*FAILURES, DIFFERENT, UNDETECTED, OTHER_TYPE, ARROW_CRASH}


@dataclass(frozen=True, slots=True)
class Refused:
    """The message of an error."""

    message: str


class EngineProcess:
    """The process in which the engine reads files. It starts again after a crash.

    Args:
        directory: Where to write the standard error of the process.
    """

    def __init__(self, directory: Path) -> None:
        self._errors = directory / "errors.log"
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> tuple[Columns | Refused, str | None]:
        """Return what the engine returns, and the failure if the read is one."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        is_ready, _, _ = select.select([process.stdout], [], [], STALL_SECONDS)
        line = process.stdout.readline() if is_ready else ""
        if not line:
            process.kill()
            self._process = None
            return Refused(f"ended with {process.wait()}: {self._errors.read_text()[-500:]}"), CRASHED
        answer = json.loads(line)
        if "unexpected" in answer:
            return Refused(answer["unexpected"]), UNEXPECTED
        if answer["most_bytes"] > MOST_BYTES:
            self.close()
            return Refused(f"{answer['most_bytes']:,} bytes"), TOO_MUCH_MEMORY
        if "error" in answer:
            return Refused(answer["error"]), None
        return {name: PlainColumn(type_, tuple(values)) for name, (type_, values) in answer["columns"].items()}, None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _start(self) -> "subprocess.Popen[str]":
        command = [*DIES_WITH_PARENT, sys.executable, "-m", "tests.foreign_files.columns_in_process"]
        with self._errors.open("w") as errors:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
            )


class SparkReader:
    """Spark's own reader.

    Args:
        remote: The address of a Spark Connect server.
    """

    def __init__(self, remote: str) -> None:
        self._spark = SparkSession.builder.remote(remote).create()

    def read(self, path: Path) -> Columns | Refused:
        """Return the columns of a Parquet or ORC file."""
        try:
            frame = self._spark.read.format(FORMATS[path.suffix]).load(str(path))
            types = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
            return plain_columns(frame.toArrow(), types)
        except PySparkException as error:
            return Refused(f"{error.getCondition()}: {str(error).partition('JVM stacktrace')[0].strip()[:300]}")
        except (
            pa.ArrowException
        ) as error:  # the client cannot represent the values, for example geometries that are null
            return Refused(f"client: {error}")

    def close(self) -> None:
        """End the session."""
        self._spark.stop()


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case.

    Attributes:
        number: The number of the case.
        source: The name of the file.
        outcome: One of the outcomes above.
        description: What a person needs to judge the case.
    """

    number: int
    source: str
    outcome: str
    description: str

    def __str__(self) -> str:
        return f"{self.number} {self.source}: {self.outcome}\n  {self.description}"


class DamagedFiles:
    """Reads damaged files with the engine and with Spark.

    Args:
        directory: An empty directory for the files.
        spark: Spark's reader.
    """

    def __init__(self, directory: Path, spark: SparkReader) -> None:
        self._directory = directory
        self._engine = EngineProcess(directory)
        self._spark = spark
        self._damager = cache(lambda source: Damager(source.read_bytes(), source.suffix))
        self._undamaged = cache(lambda source: self._engine.read(source)[0])
        self._undamaged_by_spark = cache(spark.read)

    def run(self, number: int) -> Result:
        """Run the case with a number."""
        source = SOURCES[number % len(SOURCES)]
        content, damages = self._damager(source).damage(Random(number))  # noqa: S311 - must be repeatable
        path = self._directory / f"{number}{source.suffix}"
        path.write_bytes(content)
        found, failure = self._engine.read(path)
        if failure == CRASHED and source.suffix == ".orc":
            failure = ARROW_CRASH  # see the limits in engine/readers/columnar/orc.py
        outcome, details = (failure, str(found)) if failure else self._judge(source, path, found)
        path.unlink()
        return Result(number, source.name, outcome, f"{', '.join(map(str, damages))}; {details}")

    def close(self) -> None:
        """End the process of the engine."""
        self._engine.close()

    def _judge(self, source: Path, path: Path, found: Columns | Refused) -> tuple[str, str]:
        """Return the outcome, and a description."""
        if isinstance(found, Refused):
            return REFUSED, found.message
        undamaged = self._undamaged(source)
        if found == undamaged:
            return UNCHANGED, ""
        changed = _describe_changes(undamaged, found)
        reference = self._undamaged_by_spark(source) if source.suffix in FORMATS else Refused("no reader")
        if isinstance(reference, Refused) or isinstance(undamaged, Refused):
            return NO_REFERENCE, changed
        expected = self._spark.read(path)
        has_lost_rows = _row_count(found) < _row_count(undamaged)
        if isinstance(expected, Refused):
            return FEWER_ROWS if has_lost_rows else UNDETECTED, f"{changed}; Spark: {expected.message}"
        known = {name for name in undamaged if not is_same(reference.get(name), undamaged[name], source)}
        names = [name for name in {**found, **expected} if found.get(name) != undamaged.get(name)]
        names = [name for name in names if name not in known]
        differing = [name for name in names if not is_same(expected.get(name), found.get(name), source)]
        compared = [f"Spark: {_first_difference(expected.get(name), found.get(name))}" for name in differing]
        outcome = AS_SPARK
        if has_lost_rows and _row_count(found) < _row_count(expected):
            outcome = FEWER_ROWS
        elif differing:
            same = all(_has_same_values(expected.get(name), found.get(name)) for name in differing)
            outcome = OTHER_TYPE if same else DIFFERENT
        return outcome, "; ".join([changed, *compared])


def is_same(expected: PlainColumn | None, found: PlainColumn | None, source: Path) -> bool:
    """Return whether Lodge returns what Spark returns, except that ``TIMESTAMP`` of ORC has no time zone in Lodge."""
    if source.suffix == ".orc" and found is not None:
        found = PlainColumn(found.type.replace("timestamp_ntz", "timestamp"), found.values)
    if source.suffix == ".orc" and expected is not None:
        expected = PlainColumn(expected.type.replace("timestamp_ntz", "timestamp"), expected.values)
    return expected == found


def _row_count(columns: Columns) -> int:
    return max((len(column.values) for column in columns.values()), default=0)


def _has_same_values(one: PlainColumn | None, other: PlainColumn | None) -> bool:
    return one is not None and other is not None and one.values == other.values


def _describe_changes(undamaged: Columns | Refused, found: Columns) -> str:
    if isinstance(undamaged, Refused):
        return "the engine refuses the undamaged file"
    names = [name for name in dict.fromkeys([*undamaged, *found]) if undamaged.get(name) != found.get(name)]
    described = [f"{name!r} {_first_difference(undamaged.get(name), found.get(name))}" for name in names[:3]]
    return f"{len(names)} columns changed: {', '.join(described)}"


def _first_difference(one: PlainColumn | None, other: PlainColumn | None) -> str:
    if one is None or other is None:
        return "no column" if other is None else f"a new column {other.type}"
    if one.type != other.type:
        return f"{one.type} and {other.type}"
    if len(one.values) != len(other.values):
        return f"{len(one.values)} and {len(other.values)} rows"
    pairs = enumerate(zip(one.values, other.values, strict=True))
    row, (first, second) = next(((row, pair) for row, pair in pairs if pair[0] != pair[1]), (0, ("", "")))
    return f"{one.type} row {row}: {first[:60]} and {second[:60]}"


@contextmanager
def started_spark(directory: Path) -> Iterator[str]:
    """Start a Spark Connect server, and yield its address."""
    spark = start_spark_process(directory)
    try:
        yield spark.address
    finally:
        end(spark.process)


def run_cases(numbers: Sequence[int], directory: Path, remote: str) -> Iterator[Result]:
    """Run cases."""
    spark = SparkReader(remote)
    files = DamagedFiles(directory, spark)
    try:
        for number in numbers:
            yield files.run(number)
    finally:
        files.close()
        spark.close()


def main() -> int:
    """Run many cases."""
    parser = argparse.ArgumentParser(prog="python -m tests.foreign_files.damaged", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--count", type=int, default=5000, help="how many cases are run")
    parser.add_argument("--keep", type=Path, help="a directory into which the damaged files are written")
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.count)
    if arguments.keep:
        write_cases(numbers, arguments.keep)
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lodge-damaged-") as place:
        directories = [Path(place, name) for name in ("spark", "files")]
        for each in directories:
            each.mkdir()
        with started_spark(directories[0]) as remote:
            for result in run_cases(numbers, directories[1], remote):
                outcomes[result.outcome] += 1
                if arguments.count == 1 or result.outcome in PRINTED:
                    print(result, flush=True)
    for outcome, count in outcomes.most_common():
        print(f"{count:>7,} {outcome}")
    print(f"{len(numbers):,} damaged files, {time.monotonic() - started:.0f} s.")
    return 1 if has_failed(outcomes) else 0


def has_failed(outcomes: Mapping[str, int]) -> bool:
    """Return whether the numbers of cases with each outcome are a failure."""
    allowed = max(sum(outcomes.values()) // LEAST_PER_DIFFERENCE, 1)
    return any(outcomes.get(each) for each in FAILURES) or outcomes.get(DIFFERENT, 0) > allowed


def write_cases(numbers: Sequence[int], directory: Path) -> None:
    """Write damaged files, and the undamaged ones, into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        source = SOURCES[number % len(SOURCES)]
        content, _ = Damager(source.read_bytes(), source.suffix).damage(Random(number))  # noqa: S311 - repeatable
        shutil.copyfile(source, directory / source.name)
        (directory / f"{number}{source.suffix}").write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
