"""Run Spark's SQL tests with Lodge and without it, and print every difference (``make soak``)."""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql.connect.session import SparkSession

from tests.maven import MissingMavenError
from tests.running.servers import start_spark_and_lodge
from tests.spark_sql_tests.documented import Verdict, judge, read_documented_differences
from tests.spark_sql_tests.run import Report, Runner
from tests.spark_sql_tests.server_objects import ServerObjects
from tests.spark_sql_tests.sql_files import SqlFiles, extract_test_data, read_files
from tests.spark_sql_tests.ways import NOT_REWRITTEN, WAYS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark_sql_tests", description=__doc__)
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this way; may be repeated")
    parser.add_argument("--file", action="append", metavar="NAME", help="only this file; may be repeated")
    parser.add_argument("--servers", nargs=2, metavar=("SPARK", "LODGE"), help="use these servers, and start none")
    arguments = parser.parse_args()
    ways = arguments.way or list(WAYS)
    try:
        sql_files = read_files()
    except MissingMavenError as missing:
        print(missing, file=sys.stderr)
        return 2
    files = [file for file in sql_files.files if not arguments.file or file.name in arguments.file]
    with tempfile.TemporaryDirectory(prefix="lodge-spark-sql-tests-") as temporary:
        directory = Path(temporary)
        with _servers(directory, arguments.servers) as (spark, lodge):
            objects = ServerObjects(SparkSession.builder.remote(spark).create(), extract_test_data(directory))
            try:
                runner = Runner(spark, lodge, objects)
                for file in files:
                    differences = runner.run(file, ways)
                    print(f"{file.name}: {len(file.statements)} statements, {len(differences)} differences", flush=True)
            finally:
                objects.remove_test_tables()
    verdict = judge(runner.report.differences, read_documented_differences(), runner.report.runs)
    _print_report(sql_files, runner.report, verdict)
    return 1 if verdict.undocumented else 0


@contextmanager
def _servers(directory: Path, addresses: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Start Spark and a gateway, and yield their addresses."""
    if addresses is not None:
        yield addresses[0], addresses[1]
        return
    with start_spark_and_lodge(directory) as (spark, lodge):
        yield spark, lodge


def _print_report(files: SqlFiles, report: Report, verdict: Verdict) -> None:
    for each in report.differences:
        print("UNDOCUMENTED" if each in verdict.undocumented else "documented", each)
    for each in report.volatile:
        print("volatile", each)
    for reason, count in Counter(files.skipped.values()).items():
        print(f"Skipped {count} files: {reason}.")
    for (way, name), reason in NOT_REWRITTEN.items():
        print(f"{way}: skipped {name}, because it {reason}.")
    print(f"Without Lodge: {report.seconds.get('Spark', 0):.0f} s.")
    for way, compared in report.compared.items():
        differences = sum(each.way == way for each in report.differences)
        print(
            f"{way}: {compared:,} statements compared, {report.rewritten[way]:,} of them rewritten, {differences} "
            f"different, {sum(each.way == way for each in report.volatile)} volatile, {report.seconds[way]:.0f} s."
        )
    for rule, count in report.by_rule.items():
        print(f"{count} accepted: {rule.reason}")
    for each in verdict.outdated:
        print(f"No longer different: {each}")
    print(f"{len(verdict.undocumented)} undocumented differences.")


if __name__ == "__main__":
    sys.exit(main())
