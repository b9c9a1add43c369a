"""Clients that compare each result with the expected one."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql.connect.session import SparkSession

from tests.chaos.clients import rows

_LONG_SHARE = 0.5
_LONGEST_SLEEP_SECONDS = 4.0
_LONGEST_THINK_SECONDS = 4.0
_UPLOAD_ROWS = 20_000

_Answer = TypeVar("_Answer")


class CheckingClient:
    """A client that compares each result with the expected one.

    Args:
        session: The session of the client, before its first request.
        name: The name of the client.
        repeats_canceled: Whether to repeat a request that ends with the gRPC code ``CANCELLED``. A gateway that stops
            on a busy node can end a new request with it, before the request has any effect.

    Attributes:
        pauses: How long the client waited for each request, in seconds, without the time that the query sleeps.
        problem: The violation that the client found; None if there is none.
    """

    def __init__(self, session: SparkSession, name: str, *, repeats_canceled: bool = False) -> None:
        self.name = name
        self._repeats_canceled = repeats_canceled
        self.pauses: list[float] = []
        self.problem: str | None = None
        self._session = session
        self._random = Random(name)  # noqa: S311 - must be repeatable, not secret
        self._next_id = 0
        self._table = ""
        self._expected: list[int] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stop = threading.Event()
        self._doing = "nothing"

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let the client finish its current table, and release its session."""
        self._stop.set()

    def wait_until_stopped(self, deadline: float) -> None:
        """Wait until the given monotonic time. A client that still waits then has a problem."""
        self._thread.join(max(deadline - time.monotonic(), 0.0))
        if self._thread.is_alive():
            self.problem = f"still waits for: {self._doing}"

    def _run(self) -> None:
        try:
            self._session.conf.set("spark.sql.session.localRelationCacheThreshold", "1000")
            while not self._stop.is_set():
                self._use_table()
            self._session.client.release_session()
        except (PySparkException, AssertionError) as error:
            self.problem = f"{self._doing}: {type(error).__name__}: {' '.join(str(error).split())[:500]}"
        finally:
            self._session.client.close()

    def _use_table(self) -> None:
        """Create a table, change it, and drop it."""
        self._table = f"t{self._next_id}"
        if self._random.random() < 0.3:
            self._create_from_upload()
        else:
            self._create()
        self._check()
        for _ in range(self._random.randint(1, 3)):
            self._change()
            self._check()
        self._ask(f"drop table {self._table}")
        listed = [row.tableName for row in self._ask("show temporary tables")]
        assert not listed, f"after the drop, there are {listed}"

    def _create(self) -> None:
        ids = self._new_ids()
        self._expected = list(ids)
        self._check_written(self._write(f"create temporary table {self._table} as", ids), len(ids))

    def _create_from_upload(self) -> None:
        """Create a table of rows that the client uploads as an artifact."""
        ids = self._new_ids(_UPLOAD_ROWS)
        self._expected = list(ids)
        with self._waiting("an upload"):
            self._request(lambda: self._upload(ids))
        written = self._ask(f"create temporary table {self._table} as select * from uploaded")
        self._check_written(written, len(ids))

    def _upload(self, ids: range) -> None:
        rows = pa.table({"id": pa.array(ids), "slept": pa.nulls(len(ids), pa.string())})
        self._session.createDataFrame(rows).createOrReplaceTempView("uploaded")

    def _change(self) -> None:
        ids = self._new_ids()
        if self._random.random() < 0.7:
            self._expected += ids
            self._write(f"insert into {self._table}", ids)
        else:
            self._expected = list(ids)
            self._write(f"insert overwrite {self._table}", ids)

    def _check(self) -> None:
        found = sorted(row.id for row in self._ask(f"select id from {self._table}"))
        missing = sorted(set(self._expected) - set(found))
        wrong = sorted((Counter(found) - Counter(self._expected)).elements())
        assert not missing, f"rows of {self._table} are lost: {missing[:20]}"
        assert not wrong, f"{self._table} has rows twice, or rows that were replaced: {wrong[:20]}"

    def _check_written(self, answer: Sequence[object], count: int) -> None:
        written = [row["Number of records written"] for row in answer]
        assert written == [count], f"the answer reports {written} rows instead of {count}"

    def _write(self, statement: str, ids: range) -> Sequence[object]:
        """Run a statement that writes rows, and that sometimes takes some time."""
        is_long = self._random.random() < _LONG_SHARE
        seconds = self._random.uniform(0, _LONGEST_SLEEP_SECONDS) if is_long else 0.0
        query = rows(ids, milliseconds=round(1000 * seconds / len(ids)))
        return self._ask(f"{statement} {query}", seconds)

    def _new_ids(self, count: int = 0) -> range:
        count = count or self._random.randint(1, 20)
        self._next_id += count
        return range(self._next_id - count, self._next_id)

    def _ask(self, text: str, sleep_seconds: float = 0.0) -> Sequence[object]:
        self._stop.wait(self._random.uniform(0, _LONGEST_THINK_SECONDS))
        with self._waiting(text, sleep_seconds):
            return self._request(lambda: self._session.sql(text).collect())

    def _request(self, send: Callable[[], _Answer]) -> _Answer:
        while True:
            try:
                return send()
            except SparkConnectGrpcException as error:
                if not (self._repeats_canceled and "StatusCode.CANCELLED" in str(error)):
                    raise

    @contextmanager
    def _waiting(self, what: str, sleep_seconds: float = 0.0) -> Iterator[None]:
        begun, self._doing = time.monotonic(), what[:100]
        yield
        self.pauses.append(max(time.monotonic() - begun - sleep_seconds, 0.0))
