"""Clients that create, fill and drop temporary tables at random, and keep account of what they were answered.

Each client has one session at a time, which it replaces when it is told that the session is over. What it does follows
from its seed, as far as the answers are the same.
"""

import enum
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from pyspark.errors import PySparkAssertionError, PySparkException
from pyspark.sql.connect.session import SparkSession

from tests.chaos.connections import connect
from tests.chaos.knowledge import Contents, Fate, TableKnowledge, WrongAnswerError
from tests.chaos.replicas import Replica

_NAMES = ("ants", "bees", "cats", "dogs")
_LOST = (
    "INVALID_HANDLE.SESSION_CLOSED",
    "INVALID_HANDLE.SESSION_CHANGED",
    "INVALID_HANDLE.SESSION_NOT_FOUND",
    "NO_ACTIVE_SESSION",  # what PySpark itself says once it has seen one of the others
)
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_UNCERTAIN = ("LODGE_STATEMENT_UNFINISHED", "LODGE_STORAGE_UNAVAILABLE")
"""Errors of which the client is told that the gateway does not know either."""

_PAUSE_SECONDS = 0.2
_CALM_SECONDS = 30.0


logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # PySpark's, with each error in full length


class SessionLostError(Exception):
    """The client was told that its session is over."""


class HungError(Exception):
    """A statement had no end in time."""


def rows(ids: range, *, milliseconds: int = 0, files: int = 1) -> str:
    """A query of rows with these ids, that takes so long for each row and writes so many files."""
    pause = f"java_method('java.lang.Thread', 'sleep', {milliseconds} + id * 0)"
    return f"select id, {pause} slept from range({ids.start}, {ids.stop}, 1, {files})"


def is_lost(error: PySparkException) -> bool:
    """Whether it says that the session is over."""
    is_another = isinstance(error, PySparkAssertionError) and "server side session identifier" in str(error)
    return is_another or (error.getCondition() or "").startswith(_LOST)


def fate_of(error: PySparkException) -> Fate:
    """What an error says of a statement: one with a condition is an answer, any other says that there was none."""
    condition = error.getCondition()
    return Fate.UNKNOWN if condition is None or condition in _UNCERTAIN else Fate.REFUSED


class Action(enum.Enum):
    CREATE = "create"
    INSERT = "insert"
    OVERWRITE = "overwrite"
    DROP = "drop"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Statement:
    """What a client asks for, and what its table holds if it is done."""

    action: Action
    table: str
    text: str
    after: Contents = None


@dataclass(slots=True)
class Account:
    """What happened to one client, for people."""

    done: int = 0
    refused: int = 0
    unknown: int = 0
    errors: list[str] = field(default_factory=list)

    def note(self, fate: Fate, statement: Statement, error: PySparkException | None) -> None:
        match fate:
            case Fate.DONE:
                self.done += 1
            case Fate.REFUSED:
                self.refused += 1
            case Fate.UNKNOWN:
                self.unknown += 1
        if error is not None:
            self.errors.append(f"{fate.value}: {statement.text[:60]}: {_short(error)}")


class Client:
    """One user, with one session at a time.

    Args:
        name: Who it is.
        gateways: Where it connects, in this order.
        random: What it does.

    Attributes:
        account: What happened to its statements since it began to work.
        problem: What must not happen and did; None while all is well.
    """

    def __init__(self, name: str, gateways: Sequence[Replica], random: Random) -> None:
        self.name = name
        self.account = Account()
        self.problem: Exception | None = None
        self._gateways = gateways
        self._random = random
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
        """Begins to run statements, one after the other, until it is to be calm; with a new account."""
        self.account = Account()
        self._stop.clear()
        self._working = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._working.start()

    def calm(self) -> None:
        """Ends its statement and runs no more. Raises: HungError"""
        self._stop.set()
        if self._working is not None:
            self._working.join(_CALM_SECONDS)
            if self._working.is_alive():
                raise HungError(f"client {self.name} still waits for: {self._doing}")
            self._working = None

    def greet(self) -> None:
        """Has the gateway hold its session, a new one if need be. Raises: PySparkException"""
        try:
            self.rows("select 1 id")
        except SessionLostError as error:
            self._replace_session(error)
            self.rows("select 1 id")

    def check(self, seconds: float) -> None:
        """Compares all its tables with what it knows, once nothing runs any more.

        Args:
            seconds: How long it may take until all can be read.

        Raises:
            SessionLostError, WrongAnswerError.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                listed = set(self.listed())
                for name in {*self.tables.names(), *listed}:
                    self.look(name, is_final=True)
                wrong = listed.symmetric_difference(self.tables.names())
                if wrong:
                    raise WrongAnswerError(f"tables {sorted(listed)} are listed, not {sorted(self.tables.names())}")
                return
            except PySparkException as error:
                if time.monotonic() > deadline:
                    raise WrongAnswerError(f"its tables cannot be read: {_short(error)}") from error
                time.sleep(_PAUSE_SECONDS)

    def prove(self, seconds: float) -> None:
        """Creates a table and drops it, again and again until that succeeds.

        Raises: SessionLostError, WrongAnswerError if it does not in time.
        """
        deadline = time.monotonic() + seconds
        while not self._proves():
            if time.monotonic() > deadline:
                raise WrongAnswerError(f"it can create no table: {self.account.errors[-1]}")
            time.sleep(_PAUSE_SECONDS)

    def look(self, name: str, *, is_final: bool) -> None:
        """Compares a table with what it knows. Raises: WrongAnswerError, SessionLostError, PySparkException."""
        try:
            ids: Sequence[int] | None = self.rows(f"select id from {self._random.choice(('', 'dfs.tmp.'))}{name}")
        except PySparkException as error:
            if error.getCondition() != _NOT_FOUND:
                raise
            ids = None
        self.tables.seen(name, ids, is_final=is_final)

    def lost_sessions(self) -> Sequence[str]:
        """Its own ids of the sessions that it lost since it was asked last."""
        lost, self._lost = self._lost, []
        return lost

    def listed(self) -> Sequence[str]:
        """The names of its temporary tables. Raises: SessionLostError, PySparkException."""
        return [row.tableName for row in self.ask("show temporary tables")]

    def rows(self, text: str) -> Sequence[int]:
        """The ids that a query returns. Raises: SessionLostError, PySparkException."""
        return [row.id for row in self.ask(text)]

    def ask(self, text: str) -> Sequence[object]:
        """Raises: SessionLostError, PySparkException."""
        self._doing = text
        try:
            return self.spark.sql(text).collect()
        except PySparkException as error:
            if is_lost(error):
                raise SessionLostError(f"{text[:60]}: {_short(error)}") from error
            raise
        finally:
            self._doing = "nothing"

    def leave(self) -> None:
        """Ends its session as a client does, after the statement that it runs. Raises: HungError"""
        self.calm()
        try:
            self.spark.client.release_session()
        except PySparkException as error:
            self.account.errors.append(f"session not released: {_short(error)}")
        self.spark.client.close()

    def vanish(self) -> None:
        """Goes without a word, in the middle of a statement perhaps, as a client that is killed."""
        self._stop.set()
        self.spark.client._channel.close()

    def touch(self) -> None:
        """Shows that it is still there, whatever comes of it."""
        with suppress(PySparkException, SessionLostError):
            self.rows("select 1 id")

    def _begin(self) -> None:
        self.spark: SparkSession = connect(self._gateways, user=self.name)
        self.tables = TableKnowledge()

    def _replace_session(self, error: SessionLostError) -> None:
        self._lost.append(self.session_id)
        self.account.errors.append(f"session {self.session_id} lost: {error}")
        self.spark.client.close()
        self._begin()

    def _proves(self) -> bool:
        self._next_id += 1000
        name = f"proof_{self._next_id}"
        create = f"create temporary table {name} as {rows(range(self._next_id, self._next_id + 1))}"
        proof = (
            Statement(Action.CREATE, name, create, frozenset({self._next_id})),
            Statement(Action.DROP, name, f"drop table {name}"),
        )
        return all(self._done(statement) is Fate.DONE for statement in proof)

    def _work(self) -> None:
        try:
            while not self._stop.is_set() and self.problem is None:
                self._step(self._chosen())
        except WrongAnswerError as error:
            self.problem = error
        except Exception as error:  # noqa: BLE001 - whatever ends it must be seen by who asks
            self.problem = error

    def _step(self, statement: Statement) -> None:
        try:
            if self._done(statement) is not Fate.DONE:
                self._stop.wait(_PAUSE_SECONDS)
        except SessionLostError as error:
            self._replace_session(error)

    def _done(self, statement: Statement) -> Fate:
        """Runs a statement and takes in what became of it. Raises: SessionLostError, WrongAnswerError."""
        fate, failure = Fate.DONE, None
        try:
            if statement.action is Action.READ:
                self.look(statement.table, is_final=False)
            else:
                self.ask(statement.text)
        except PySparkException as error:
            fate, failure = fate_of(error), error
        if statement.action is not Action.READ:
            self.tables.changed(statement.table, statement.after, fate)
        self.account.note(fate, statement, failure)
        return fate

    def _chosen(self) -> Statement:
        table = self._random.choice(_NAMES)
        if not self.tables.is_certain(table):
            return Statement(Action.READ, table, f"read {table}")
        before = self.tables.contents(table)
        if before is None:
            return self._writing(Action.CREATE, table, "create temporary table {} as {}", frozenset())
        action = self._random.choices(
            (Action.INSERT, Action.OVERWRITE, Action.DROP, Action.READ), weights=(3, 2, 3, 2)
        )[0]
        match action:
            case Action.INSERT:
                return self._writing(action, table, "insert into {} {}", before)
            case Action.OVERWRITE:
                return self._writing(action, table, "insert overwrite {} {}", frozenset())
            case Action.DROP:
                return Statement(action, table, f"drop table {table}")
            case _:
                return Statement(Action.READ, table, f"read {table}")

    def _writing(self, action: Action, table: str, form: str, kept: frozenset[int]) -> Statement:
        """A statement that adds new ids to those that are kept, and takes from a moment to two seconds."""
        count = self._random.randint(1, 20)
        ids = range(self._next_id, self._next_id + count)
        self._next_id += 1000
        query = rows(ids, milliseconds=self._random.randrange(0, 100), files=self._random.choice((1, 1, 1, 8)))
        return Statement(action, table, form.format(table, query), kept | frozenset(ids))


def all_of(clients: Sequence[Client], action: Callable[[Client], None]) -> Sequence[str]:
    """Has all clients do something at the same time. Returns: What went wrong, if anything."""
    problems: list[str] = []

    def run(client: Client) -> None:
        try:
            action(client)
        except Exception as error:  # noqa: BLE001 - each one's is told
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
