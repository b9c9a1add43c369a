"""A client that checks that a failed statement leaves nothing behind."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import SQL
from pyspark.sql.connect.session import SparkSession

from workspace.files.session_records import FileSessionRecords


class Client:
    """A session at a gateway.

    It compares the states before and after each sequence of refused statements.

    Args:
        spark: The session.
        gateway: The gateway.
        location: The session location.
    """

    def __init__(self, spark: SparkSession, gateway: object, location: Path) -> None:
        self._spark, self.gateway, self.location = spark, gateway, location
        self._records = FileSessionRecords(gateway.root)
        self._before: object = None
        self._refused: list[object] = []
        self._is_refusing = False

    @property
    def spark(self) -> SparkSession:
        if not self._is_refusing:
            self._check_refused()
            self._before = None  # the caller may change anything
        return self._spark

    def _check_refused(self):
        """Check that the statements refused since the last other statement have left nothing behind."""
        refused, self._refused = self._refused, []
        if refused:
            assert self.state() == self._before, refused

    def set(self, key, value):
        """Change a setting. Settings are not part of the state."""
        self._spark.conf.set(key, value)

    def unset(self, key):
        self._spark.conf.unset(key)

    def run(self, text, **parameters):
        """Run a statement other than a query. PySpark runs it without ``collect``."""
        self.spark.sql(text, **parameters)

    def rows(self, text, **parameters):
        return [tuple(row) for row in self.spark.sql(text, **parameters).collect()]

    def sorted(self, text, **parameters):
        """Return the rows in the order of their values, with NULL last."""
        return sorted(self.rows(text, **parameters), key=lambda row: [(value is None, value) for value in row])

    def contents(self, *names):
        """Return the rows of each table, in the order of their values."""
        return [self.sorted(f"select * from {name}") for name in names]

    def tables(self):
        """Return the names of the temporary tables, ready or not."""
        return [table.name for table in self.record().tables]

    def record(self):
        session_id = self._spark.session_id
        return next(s.record for s in self._records.list() if s.record.client_session_id == session_id)

    def views(self):
        """Return the names of the temporary views, including those of tables."""
        shown = DataFrame(SQL("show tables"), self._spark).collect()  # one request, and not two as of `sql`
        return sorted(row.tableName for row in shown if row.isTemporary)

    def files(self):
        return sorted(str(path.relative_to(self.location)) for path in self.location.rglob("*"))

    def modes(self):
        return {stat.filemode(path.stat().st_mode) for path in [self.location, *self.location.rglob("*")]}

    def state(self):
        """Return everything that a statement could leave behind."""
        record = self.record()
        return record.tables, record.writes, self.views(), self.files()

    def refuses(self, statement: str | Callable[[], object], condition: str, sql_state: str | None, *texts: str) -> str:
        """Check that a statement fails and leaves nothing behind.

        The state is checked before the next statement that is not refused, or at the end of the test.

        Args:
            statement: The statement, or a function that runs it.
            condition: The expected condition.
            sql_state: The expected SQLSTATE.
            *texts: The expected parts of the message.

        Returns:
            The message.
        """
        if self._before is None:
            self._before = self.state()
        self._refused.append(statement)
        self._is_refusing = True
        try:
            with pytest.raises(PySparkException) as raised:
                if isinstance(statement, str):
                    self._spark.sql(statement).collect()
                else:
                    statement()
        finally:
            self._is_refusing = False
        message = str(raised.value)
        assert (raised.value.getCondition(), raised.value.getSqlState()) == (condition, sql_state), message
        for text in texts:
            assert text in message, statement
        return message

    def drop_all(self):
        try:
            self._check_refused()
        finally:
            self._before = None
            for name in self.tables():
                self.run(f"drop table `{name.replace('`', '``')}`")
        assert list(self.location.iterdir()) == []


@pytest.fixture(scope="module")
def new_client() -> Iterator[Callable[..., Client]]:
    """Return a function that creates clients for a module. The Python processes of their sessions end with it."""
    clients = []

    def make(gateway, **parameters: str) -> Client:
        suffix = "".join(f";{key}={value}" for key, value in parameters.items())
        before = set(gateway.locations())
        spark = SparkSession.builder.remote(f"{gateway.address}/{suffix}").create()
        spark.sql("create temporary table first (a int)").collect()
        (location,) = set(gateway.locations()) - before
        spark.sql("drop table first").collect()
        clients.append(Client(spark, gateway, location))
        return clients[-1]

    yield make
    for client in clients:
        if client.gateway.process.poll() is None:
            client.spark.stop()
        else:
            client.spark.client.close()


@pytest.fixture(scope="module")
def shared_client(lodge, new_client) -> Client:
    return new_client(lodge)


@pytest.fixture
def client(shared_client) -> Iterator[Client]:
    """Return a shared session that has no tables before and after the test."""
    yield shared_client
    shared_client.drop_all()


@pytest.fixture(scope="session")
def writable(start_shared_lodge, spark_server):
    """Start a gateway with the writable workspace ``dfs``."""
    return start_shared_lodge("--writable-workspace", "dfs", backend=spark_server)


@pytest.fixture(scope="module")
def shared_writer(writable, new_client) -> Client:
    return new_client(writable)


@pytest.fixture
def writer(shared_writer) -> Iterator[Client]:
    """Return a shared session at the gateway with a writable workspace."""
    yield shared_writer
    shared_writer.drop_all()
