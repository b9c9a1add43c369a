"""Working clients, each with a session of its own.

Usage: ``python -m tests.hostile.workers ADDRESS COUNT SECONDS TABLE``.

Each client creates a temporary table, or a view if ``TABLE`` is ``view``, because Spark itself has no temporary tables.
Then it executes statements about it with pauses. It writes a line of JSON to standard output for each statement, with
its end, its duration, and its error if the answer was wrong.
"""

import json
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable

from pyspark.sql.connect.session import SparkSession

_ROWS = 100
_output = threading.Lock()


def _report(**values: object) -> None:
    with _output:
        print(json.dumps(values), flush=True)


def _measure(action: Callable[[], object], expected: object) -> None:
    begun = time.monotonic()
    error = None
    try:
        answer = action()
        if answer != expected:
            error = f"The answer is {answer!r} instead of {expected!r}."
    except Exception as raised:  # noqa: BLE001 - each error is a finding
        error = f"{type(raised).__name__}: {raised}" + "".join(traceback.format_exception(raised)[-12:])
    ended = time.monotonic()
    _report(ended=ended, seconds=ended - begun, error=error)


def work(address: str, number: int, pause_seconds: float, table: str) -> None:
    spark = SparkSession.builder.remote(address).create()
    spark.sql(f"create temporary {table} kept as select id from range({_ROWS})").collect()
    _report(ready=number)
    statements: list[tuple[Callable[[], object], object]] = [
        (lambda: spark.sql("select 1 one").collect()[0].one, 1),
        (lambda: spark.sql("select 2 two").collect()[0].two, 2),
        (lambda: spark.sql("select count(*) n from kept").collect()[0].n, _ROWS),
        (lambda: spark.range(10).toPandas().shape, (10, 1)),
    ]
    time.sleep(pause_seconds * number / 16)
    while True:
        for action, expected in statements:
            _measure(action, expected)
            time.sleep(pause_seconds)


def main() -> None:
    address, count, pause_seconds, table = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    warnings.simplefilter("ignore")
    threads = [
        threading.Thread(target=work, args=(address, number, pause_seconds, table), daemon=True)
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
