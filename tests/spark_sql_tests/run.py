"""Runs files of Spark's SQL tests with Lodge and without it, and finds the differences."""

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql.connect.session import SparkSession

from tests.spark_sql_tests.comparison import compare
from tests.spark_sql_tests.differences import Difference, has_same_form
from tests.spark_sql_tests.outcomes import Failure, Outcome, Result, run_statement
from tests.spark_sql_tests.rules import Rule, find_rule
from tests.spark_sql_tests.server_objects import ServerObjects
from tests.spark_sql_tests.sql_files import SqlFile
from tests.spark_sql_tests.ways import AS_IS, WAYS, Rewriter, changes_statements

logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # PySpark logs each error that it raises

_T = TypeVar("_T")


@dataclass
class Report:
    """What a run has found.

    Attributes:
        runs: The ways and names of the files that ran.
        compared: The number of compared statements by way.
        rewritten: The number of rewritten statements by way.
        seconds: The duration by way. The duration without Lodge has the name ``Spark``.
        differences: The differences.
        by_rule: The number of differences that each rule accepts.
        volatile: Differences of statements that also differ between two runs without Lodge.
    """

    runs: set[tuple[str, str]] = field(default_factory=set)
    compared: Counter[str] = field(default_factory=Counter)
    rewritten: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    differences: list[Difference] = field(default_factory=list)
    by_rule: Counter[Rule] = field(default_factory=Counter)
    volatile: list[Difference] = field(default_factory=list)


class Runner:
    """Runs files, each in a fresh session.

    Args:
        spark: The address of Spark.
        lodge: The address of a gateway in front of it.
        objects: The objects that all sessions of the server share.
    """

    def __init__(self, spark: str, lodge: str, objects: ServerObjects) -> None:
        self._spark, self._lodge, self._objects = spark, lodge, objects
        self.report = Report()

    def run(self, file: SqlFile, ways: Iterable[str]) -> Sequence[Difference]:
        """Run a file in some ways, and return the differences. Ways that change no statement are omitted."""
        changing = [way for way in ways if way == AS_IS or changes_statements(way, file)]
        if not changing:
            return []
        expected = self._measure("Spark", lambda: self._run_directly(file))
        differences = [each for way in changing for each in self._run_through_lodge(file, way, expected)]
        if differences:
            differences = list(self._without_volatile(file, expected, differences))
        self.report.differences += differences
        return differences

    def _run_directly(self, file: SqlFile) -> Sequence[Outcome]:
        with _Session(self._spark, file, self._objects) as spark:
            return [run_statement(spark, statement) for statement in file.statements]

    def _run_through_lodge(self, file: SqlFile, way: str, expected: Sequence[Outcome]) -> Iterator[Difference]:
        rewriter = WAYS[way](file.statements)
        with _Session(self._lodge, file, self._objects) as spark:
            found = self._measure(way, lambda: [*_run_rewritten(spark, file, rewriter, expected)])
        self.report.runs.add((way, file.name))
        self.report.compared[way] += len(found)
        self.report.rewritten[way] += sum(a != b for a, (b, _) in zip(file.statements, found, strict=True))
        for number, (statement, outcome) in enumerate(zip(file.statements, expected, strict=True)):
            sent, got = found[number]
            kind = compare(statement, outcome, got, with_message=way == AS_IS)
            if kind is None:
                continue
            difference = Difference(way, file.name, number, statement, sent, kind, outcome, got)
            if rule := find_rule(difference):
                self.report.by_rule[rule] += 1
            else:
                yield difference

    def _without_volatile(
        self, file: SqlFile, expected: Sequence[Outcome], differences: Sequence[Difference]
    ) -> Iterator[Difference]:
        """Yield the differences, except those of rows that also differ between two runs without Lodge."""
        again = self._measure("Spark", lambda: self._run_directly(file))
        for each in differences:
            same = compare(each.statement, expected[each.number], again[each.number], with_message=True) is None
            if same or not has_same_form(each):
                yield each
            else:
                self.report.volatile.append(each)

    def _measure(self, name: str, work: Callable[[], _T]) -> _T:
        begun = time.monotonic()
        result = work()
        self.report.seconds[name] += time.monotonic() - begun
        return result


class _Session:
    """A fresh session for a file. What the file creates is removed at the end."""

    def __init__(self, address: str, file: SqlFile, objects: ServerObjects) -> None:
        self._spark, self._objects = SparkSession.builder.remote(address).create(), objects
        for key, value in file.settings.items():
            run_statement(self._spark, f"set {key}={value}")
        for statement in file.setup:
            run_statement(self._spark, statement)

    def __enter__(self) -> SparkSession:
        return self._spark

    def __exit__(self, *_: object) -> None:
        self._spark.stop()
        self._objects.remove_leftovers()


def _run_rewritten(
    spark: SparkSession, file: SqlFile, rewriter: Rewriter, expected: Sequence[Outcome]
) -> Iterator[tuple[str, Outcome]]:
    """Yield the rewritten statements with their outcomes.

    If a rewritten statement fails although the original does not, the original runs too. So one difference does not
    cause others in the statements after it.
    """
    for statement, outcome in zip(file.statements, expected, strict=True):
        text = rewriter.rewrite(statement)
        found = run_statement(spark, text)
        if text != statement and isinstance(found, Failure) and isinstance(outcome, Result):
            rewriter.forget(statement)
            run_statement(spark, statement)
        yield text, found
