"""A client with temporary tables, which knows what must be left of a statement that failed: nothing."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from workspace.files.session_records import FileSessionRecords


class Client:
    """One session at a gateway.

    Args:
        spark: The session.
        gateway: Where it is.
        location: Its session location.
    """

    def __init__(self, spark: SparkSession, gateway: object, location: Path) -> None:
        self._spark, self.gateway, self.location = spark, gateway, location
        self._records = FileSessionRecords(gateway.root)
        self._known = None

    @property
    def spark(self) -> SparkSession:
        self._known = None  # whoever has it may change anything
        return self._spark

    def run(self, text, **parameters):
        """A statement that PySpark runs at once, as it does with all but queries."""
        self.spark.sql(text, **parameters)

    def rows(self, text, **parameters):
        return [tuple(row) for row in self.spark.sql(text, **parameters).collect()]

    def sorted(self, text, **parameters):
        """The rows in the order of their values; NULL is last."""
        return sorted(self.rows(text, **parameters), key=lambda row: [(value is None, value) for value in row])

    def tables(self):
        """The names of its temporary tables, ready or not."""
        return [table.name for table in self.record().tables]

    def record(self):
        session_id = self._spark.session_id
        return next(s.record for s in self._records.list() if s.record.client_session_id == session_id)

    def views(self):
        """The temporary views that Spark knows, those of tables among them."""
        return sorted(row.tableName for row in self._spark.sql("show tables").collect() if row.isTemporary)

    def files(self):
        return sorted(str(path.relative_to(self.location)) for path in self.location.rglob("*"))

    def modes(self):
        return {stat.filemode(path.stat().st_mode) for path in [self.location, *self.location.rglob("*")]}

    def state(self):
        """Everything that a statement could leave."""
        record = self.record()
        return record.tables, record.writes, self.views(), self.files()

    def refuses(self, statement: str | Callable[[], object], condition: str, sql_state: str | None, *texts: str) -> str:
        """Runs what must fail, and leave nothing. Returns: the message."""
        before = self._known or self.state()
        with pytest.raises(PySparkException) as raised:
            if isinstance(statement, str):
                self._spark.sql(statement).collect()
            else:
                statement()
        message = str(raised.value)
        assert (raised.value.getCondition(), raised.value.getSqlState()) == (condition, sql_state), message
        for text in texts:
            assert text in message, statement
        self._known = self.state()
        assert self._known == before, statement
        return message

    def drop_all(self):
        for name in self.tables():
            self._spark.sql(f"drop table `{name.replace('`', '``')}`")
        self._known = None
        assert list(self.location.iterdir()) == []


@pytest.fixture(scope="session")
def new_client() -> Iterator[Callable[..., Client]]:
    """Makes clients that end with the run."""
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


@pytest.fixture(scope="session")
def shared_client(lodge, new_client) -> Client:
    return new_client(lodge)


@pytest.fixture
def client(shared_client) -> Iterator[Client]:
    """The session of all tests that need none of their own; without tables before and after."""
    yield shared_client
    shared_client.drop_all()


@pytest.fixture(scope="session")
def writable(start_lodge, spark_server):
    """A gateway that lets permanent tables be made in ``dfs``."""
    return start_lodge("--writable-workspace", "dfs", backend=spark_server)


@pytest.fixture(scope="session")
def shared_writer(writable, new_client) -> Client:
    return new_client(writable)


@pytest.fixture
def writer(shared_writer) -> Iterator[Client]:
    """A session at ``writable``."""
    yield shared_writer
    shared_writer.drop_all()
