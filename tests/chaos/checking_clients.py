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

from tests.chaos.table_changes import Action, NewRows, Statement, change, create, rename
from tests.chaos.table_oracle import TableContents

_LONG_SHARE = 0.5
_LONGEST_SLEEP_SECONDS = 4.0
_LONGEST_THINK_SECONDS = 4.0
_UPLOAD_ROWS = 20_000
_CHANGES = (
    *(Action.INSERT, Action.INSERT, Action.OVERWRITE, Action.OVERWRITE_PARTITIONS, Action.UPDATE, Action.MERGE),
    *(Action.REPLACE, Action.ADD_COLUMN, Action.RENAME),
)
"""The changes of tables, each as often as a client should choose it."""

_Answer = TypeVar("_Answer")


class CheckingClient:
    """A client that compares each result with the expected one.

    Args:
        session: The session of the client, before its first request.
        name: The name of the client.
        repeats_canceled: Whether to repeat a request that ends with the gRPC code ``CANCELLED``. A gateway that stops
            on a busy node can end a new request with it, before the request has any effect.
        changes: The changes of tables to choose from.

    Attributes:
        pauses: How long the client waited for each request, in seconds, without the time that the query sleeps.
        problem: The violation that the client found; None if there is none.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        *,
        repeats_canceled: bool = False,
        changes: Sequence[Action] = _CHANGES,
    ) -> None:
        self.name = name
        self._changes = changes
        self._repeats_canceled = repeats_canceled
        self.pauses: list[float] = []
        self.problem: str | None = None
        self._session = session
        self._random = Random(name)  # noqa: S311 - must be repeatable, not secret
        self._next_id = 0
        self._table = ""
        self._is_partitioned = False
        self._expected = TableContents(frozenset())
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
        self._is_partitioned = self._random.random() < 0.5
        new = self._new_rows()
        self._check_written(
            self._run_statement(create(self._table, new, is_partitioned=self._is_partitioned), new), new
        )

    def _create_from_upload(self) -> None:
        """Create a table of rows that the client uploads as an artifact."""
        new = NewRows(self._new_ids(_UPLOAD_ROWS))
        self._is_partitioned, self._expected = False, TableContents(frozenset(new.ids))
        with self._waiting("an upload"):
            self._request(lambda: self._upload(new.ids))
        self._check_written(self._ask(f"create temporary table {self._table} as select * from uploaded"), new)

    def _upload(self, ids: range) -> None:
        parities = pa.array([each % 2 for each in ids])
        rows = pa.table({"id": pa.array(ids), "slept": pa.nulls(len(ids), pa.string()), "parity": parities})
        self._session.createDataFrame(rows).createOrReplaceTempView("uploaded")

    def _change(self) -> None:
        action = self._random.choice(self._changes)
        new = self._new_rows()
        if action is Action.RENAME:
            statement = rename(self._table, f"{self._table}_", self._expected)
        else:
            is_partitioned = self._is_partitioned
            statement = change(action, self._table, self._expected, new, self._random, is_partitioned=is_partitioned)
        answer = self._run_statement(statement, new)
        if action is Action.REPLACE:
            self._check_written(answer, new)

    def _run_statement(self, statement: Statement, new: NewRows) -> Sequence[object]:
        """Run a statement, which sleeps for each new row, and expect its effect."""
        sleep_seconds = new.milliseconds * len(new.ids) / 1000
        answer = self._send(statement.text, lambda: statement.run(self._session), sleep_seconds)
        self._table = statement.new_name or self._table
        assert statement.after is not None
        self._expected = statement.after
        return answer

    def _check(self) -> None:
        found = sorted(row.id for row in self._ask(f"select id from {self._table}"))
        expected = self._expected.ids
        missing = sorted(expected - set(found))
        wrong = sorted((Counter(found) - Counter(expected)).elements())
        assert not missing, f"rows of {self._table} are lost: {missing[:20]}"
        assert not wrong, f"{self._table} has rows twice, or rows that were replaced: {wrong[:20]}"

    def _check_written(self, answer: Sequence[object], new: NewRows) -> None:
        written = [row["Number of records written"] for row in answer]
        assert written == [len(new.ids)], f"the answer reports {written} rows instead of {len(new.ids)}"

    def _new_rows(self) -> NewRows:
        """Return rows that sometimes take some time."""
        ids = self._new_ids()
        is_long = self._random.random() < _LONG_SHARE
        seconds = self._random.uniform(0, _LONGEST_SLEEP_SECONDS) if is_long else 0.0
        return NewRows(ids, round(1000 * seconds / len(ids)))

    def _new_ids(self, count: int = 0) -> range:
        count = count or self._random.randint(1, 20)
        self._next_id += count
        return range(self._next_id - count, self._next_id)

    def _ask(self, text: str) -> Sequence[object]:
        return self._send(text, lambda: self._session.sql(text).collect())

    def _send(self, text: str, send: Callable[[], _Answer], sleep_seconds: float = 0.0) -> _Answer:
        self._stop.wait(self._random.uniform(0, _LONGEST_THINK_SECONDS))
        with self._waiting(text, sleep_seconds):
            return self._request(send)

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
