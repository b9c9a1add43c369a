"""Clients that use temporary tables at random, and record the answers.

Each client has one session at a time, and opens a new one when the session is over. Its statements follow from its
seed, as long as the answers are the same.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from pyspark.errors import PySparkAssertionError, PySparkException
from pyspark.sql.connect.session import SparkSession

from gateway.backends.followed_operation import REATTACH_SECONDS
from tests.chaos.connections import connect
from tests.chaos.documented_errors import is_documented
from tests.chaos.replicas import Replica
from tests.chaos.table_changes import COLUMNS, Action, NewRows, Statement, change, create, drop, read, rename
from tests.chaos.table_oracle import Outcome, TableContents, TableOracle, WrongAnswerError

_NAMES = ("ants", "bees", "cats")
_PARTITIONED = ("dogs", "emus", "foxes")
_WEIGHTS = {
    Action.INSERT: 3,
    Action.OVERWRITE: 2,
    Action.OVERWRITE_PARTITIONS: 2,
    Action.UPDATE: 2,
    Action.MERGE: 2,
    Action.REPLACE: 2,
    Action.ADD_COLUMN: 1,
    Action.RENAME: 2,
    Action.DROP: 3,
    Action.READ: 2,
}
"""How often a client chooses each action for a table that exists."""

SESSION_LOST = (
    "INVALID_HANDLE.SESSION_CLOSED",
    "INVALID_HANDLE.SESSION_CHANGED",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "NO_ACTIVE_SESSION",  # PySpark's own error after one of the others
)
"""The conditions that a client receives when its session is over. Which one depends on who notices first."""

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_UNCERTAIN = ("LODGE_STATEMENT_UNFINISHED", "LODGE_STORAGE_UNAVAILABLE")
"""Errors after which neither client nor gateway knows the outcome."""

_PAUSE_SECONDS = 0.2
_CALM_SECONDS = REATTACH_SECONDS + 30.0
"""How long a statement may run. A gateway tries to reattach to a statement while its backend is absent."""


_Answer = TypeVar("_Answer")

logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # PySpark's, with each error in full length


class SessionLostError(Exception):
    """The session of a client is over."""


class HungError(Exception):
    """A statement did not end in time."""


def is_session_lost(error: PySparkException) -> bool:
    """Return whether an error says that the session is over."""
    is_another = isinstance(error, PySparkAssertionError) and "server side session identifier" in str(error)
    condition = error.getCondition() or ""
    is_cut_off = condition == "RESPONSE_ALREADY_RECEIVED" and "SESSION_NOT_FOUND" in str(error)
    return is_another or is_cut_off or condition.startswith(SESSION_LOST)


def outcome_of(error: PySparkException) -> Outcome:
    """Return the outcome after an error.

    An error without a condition means that the answer was lost.
    """
    condition = error.getCondition()
    return Outcome.UNKNOWN if condition is None or condition in _UNCERTAIN else Outcome.REFUSED


@dataclass(slots=True)
class Tally:
    """Counts of outcomes and errors of one client, for people."""

    done: int = 0
    refused: int = 0
    unknown: int = 0
    errors: list[str] = field(default_factory=list)

    def note(self, outcome: Outcome, statement: Statement, error: PySparkException | None) -> None:
        match outcome:
            case Outcome.DONE:
                self.done += 1
            case Outcome.REFUSED:
                self.refused += 1
            case Outcome.UNKNOWN:
                self.unknown += 1
        if error is not None:
            self.errors.append(f"{outcome.value}: {statement.text[:60]}: {_short(error)}")


class Client:
    """A user with one session at a time.

    Args:
        name: The user's name.
        gateways: The gateways to connect to, in order of preference.
        random: Chooses the statements.
        think_seconds: How long it pauses at most between two statements.

    Attributes:
        tally: The outcomes of the statements since the client started to work.
        problem: The violation that the client found; None if there is none.
        storage_fails: Whether the storage may fail, so that jobs of Spark may fail.
    """

    def __init__(self, name: str, gateways: Sequence[Replica], random: Random, think_seconds: float = 0.0) -> None:
        self.name = name
        self.tally = Tally()
        self.problem: Exception | None = None
        self.storage_fails = False
        self._gateways = gateways
        self._random = random
        self._think_seconds = think_seconds
        self._next_id = 1000
        self._stop = threading.Event()
        self._working: threading.Thread | None = None
        self._doing = "nothing"
        self._lost: list[str] = []
        self._begin()

    @property
    def session_id(self) -> str:
        return self.spark.session_id

    def work(self) -> None:
        """Run statements in a thread, with a new tally, until `stop_working`."""
        self.tally = Tally()
        self._stop.clear()
        self._working = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._working.start()

    @property
    def has_stopped(self) -> bool:
        """Whether the client runs no statements of its own."""
        return self._working is None

    def stop_working(self) -> None:
        """Finish the current statement and run no more.

        Raises:
            HungError: If the statement does not end.
        """
        self._stop.set()
        if self._working is not None:
            self._working.join(_CALM_SECONDS)
            if self._working.is_alive():
                raise HungError(f"client {self.name} still waits for: {self._doing}")
            self._working = None

    def ensure_session(self) -> None:
        """Make a gateway serve the session, or a new session if this one is over.

        Raises:
            PySparkException: If no gateway serves it.
        """
        try:
            self.rows("select 1 id")
        except SessionLostError as error:
            self._replace_session(error)
            self.rows("select 1 id")

    def check(self, seconds: float) -> None:
        """Compare all tables with the expected content, once no statement runs.

        Args:
            seconds: How long the tables may be unreadable.

        Raises:
            SessionLostError: If the session is over.
            WrongAnswerError: If a table differs.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                listed = set(self.list_tables())
                for name in {*self.tables.names(), *listed}:
                    self.check_table(name, is_final=True)
                wrong = listed.symmetric_difference(self.tables.names())
                if wrong:
                    raise WrongAnswerError(f"tables {sorted(listed)} are listed, not {sorted(self.tables.names())}")
                return
            except PySparkException as error:
                if time.monotonic() > deadline:
                    raise WrongAnswerError(f"its tables cannot be read: {_short(error)}") from error
                time.sleep(_PAUSE_SECONDS)

    def check_writable(self, seconds: float) -> None:
        """Create a table and drop it, with retries.

        Raises:
            SessionLostError: If the session is over.
            WrongAnswerError: If it does not succeed in time.
        """
        deadline = time.monotonic() + seconds
        while not self._can_write():
            if time.monotonic() > deadline:
                raise WrongAnswerError(f"it can create no table: {self.tally.errors[-1]}")
            time.sleep(_PAUSE_SECONDS)

    def check_table(self, name: str, *, is_final: bool) -> None:
        """Compare a table with the expected content.

        Raises:
            WrongAnswerError: If it differs.
            SessionLostError: If the session is over.
            PySparkException: If it cannot be read.
        """
        text = f"select * from {self._random.choice(('', 'dfs.tmp.'))}{name}"
        ids: Sequence[int] | None = None
        columns = COLUMNS
        try:
            ids, columns = self._request(text, lambda: self._read(text))
        except PySparkException as error:
            if error.getCondition() != _NOT_FOUND:
                raise
        self.tables.record_read(name, ids, columns - COLUMNS, is_final=is_final)

    def take_lost_sessions(self) -> Sequence[str]:
        """Return the ids of sessions lost since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def list_tables(self) -> Sequence[str]:
        """Return the names of the session's temporary tables."""
        return [row.tableName for row in self.ask("show temporary tables")]

    def rows(self, text: str) -> Sequence[int]:
        """Return the ids that a query selects."""
        return [row.id for row in self.ask(text)]

    def ask(self, text: str) -> Sequence[object]:
        """Run a statement and return its rows.

        Raises:
            SessionLostError: If the session is over.
            PySparkException: If the statement fails.
        """
        return self._request(text, lambda: self.spark.sql(text).collect())

    def leave(self) -> None:
        """Finish the current statement and release the session.

        Raises:
            HungError: If the statement does not end.
        """
        self.stop_working()
        try:
            self.spark.client.release_session()
        except PySparkException as error:
            self.tally.errors.append(f"session not released: {_short(error)}")
        self.spark.client.close()

    def vanish(self) -> None:
        """Disappear without a request, like a killed client.

        A statement may be running.
        """
        self._stop.set()
        self.spark.client._channel.close()

    def ping(self) -> None:
        """Run a statement to keep the session from being idle, and ignore its failure."""
        with suppress(PySparkException, SessionLostError):
            self.rows("select 1 id")

    def _request(self, text: str, send: Callable[[], _Answer]) -> _Answer:
        """Send a statement, and return what the client receives.

        Raises:
            SessionLostError: If the session is over.
            PySparkException: If the statement fails.
        """
        self._doing = text
        try:
            return send()
        except PySparkException as error:
            if is_session_lost(error):
                raise SessionLostError(f"{text[:60]}: {_short(error)}") from error
            raise
        finally:
            self._doing = "nothing"

    def _read(self, text: str) -> tuple[Sequence[int], int]:
        """Return the ids that a query selects, and the number of its columns."""
        frame = self.spark.sql(text)
        return [row.id for row in frame.collect()], len(frame.columns)

    def _begin(self) -> None:
        self.spark: SparkSession = connect(self._gateways, user=self.name)
        self.tables = TableOracle()

    def _replace_session(self, error: SessionLostError) -> None:
        self._lost.append(self.session_id)
        self.tally.errors.append(f"session {self.session_id} lost: {error}")
        self.spark.client.close()
        self._begin()

    def _can_write(self) -> bool:
        self._next_id += 1000
        name = f"proof_{self._next_id}"
        proof = (create(name, NewRows(range(self._next_id, self._next_id + 1))), drop(name))
        return all(self._execute(statement) is Outcome.DONE for statement in proof)

    def _work(self) -> None:
        try:
            while not self._stop.is_set() and self.problem is None:
                self._step(self._choose_statement())
        except WrongAnswerError as error:
            self.problem = error
        except Exception as error:  # noqa: BLE001 - any failure is a problem
            self.problem = error

    def _step(self, statement: Statement) -> None:
        try:
            if self._execute(statement) is not Outcome.DONE:
                self._stop.wait(_PAUSE_SECONDS)
            self._stop.wait(self._random.uniform(0, self._think_seconds))
        except SessionLostError as error:
            self._replace_session(error)

    def _execute(self, statement: Statement) -> Outcome:
        """Run a statement and record its outcome.

        Raises:
            SessionLostError: If the session is over.
            WrongAnswerError: If a table differs, or the error is not documented.
        """
        outcome, failure = Outcome.DONE, None
        try:
            if statement.action is Action.READ:
                self.check_table(statement.table, is_final=False)
            else:
                self._request(statement.text, lambda: statement.run(self.spark))
        except PySparkException as error:
            outcome, failure = outcome_of(error), error
            if not is_documented(error, storage_fails=self.storage_fails):
                raise WrongAnswerError(f"this error is not documented: {_short(error)}") from error
        if statement.action is Action.RENAME:
            self.tables.record_renaming(statement.table, statement.new_name, outcome)
        elif statement.action is not Action.READ:
            self.tables.record_change(statement.table, statement.after, outcome)
        self.tally.note(outcome, statement, failure)
        return outcome

    def _choose_statement(self) -> Statement:
        table = self._random.choice(_NAMES + _PARTITIONED)
        if not self.tables.is_certain(table):
            return read(table)
        before = self.tables.contents(table)
        is_partitioned = table in _PARTITIONED
        if before is None:
            replaces = self._random.random() < 0.3
            return create(table, self._new_rows(), is_partitioned=is_partitioned, replaces=replaces)
        action = self._random.choices(list(_WEIGHTS), weights=list(_WEIGHTS.values()))[0]
        match action:
            case Action.DROP:
                return drop(table)
            case Action.RENAME:
                return self._rename(table, before)
            case _:
                return change(action, table, before, self._new_rows(), self._random, is_partitioned=is_partitioned)

    def _rename(self, table: str, before: TableContents) -> Statement:
        """Return a statement that renames a table to a free name for such tables. Read the table if there is none."""
        names = _PARTITIONED if table in _PARTITIONED else _NAMES
        free = [each for each in names if self.tables.is_certain(each) and self.tables.contents(each) is None]
        return rename(table, self._random.choice(free), before) if free else read(table)

    def _new_rows(self) -> NewRows:
        """Return rows with ids of their own, which take up to two seconds."""
        ids = range(self._next_id, self._next_id + self._random.randint(1, 20))
        self._next_id += 1000
        return NewRows(ids, self._random.randrange(0, 100), self._random.choice((1, 1, 1, 8)))


def run_for_all(clients: Sequence[Client], action: Callable[[Client], None]) -> Sequence[str]:
    """Run an action for all clients concurrently, and return the problems."""
    problems: list[str] = []

    def run(client: Client) -> None:
        try:
            action(client)
        except Exception as error:  # noqa: BLE001 - each failure is a problem
            problems.append(f"client {client.name}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for client, thread in zip(clients, threads, strict=True):
        thread.join(2 * _CALM_SECONDS)
        if thread.is_alive():
            problems.append(f"client {client.name} hangs in: {client._doing}")
    return problems


def _short(error: PySparkException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
