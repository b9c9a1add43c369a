"""A gateway in front of a shared Spark server, and unmodified PySpark clients."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql.connect.session import SparkSession

from gateway.sql.name_syntax import quote_name
from workspace.workspaces import Workspace, Workspaces

AMOUNT = '"1","Bob","200","false"\n"2","Kate","150","true"\n"3","Tim","20","false"\n"4","Roger","500","true"\n'


@pytest.fixture(scope="session")
def lodge(start_shared_lodge, spark_server):
    """A gateway for all tests without special settings."""
    gateway = start_shared_lodge(backend=spark_server)
    (gateway.files / "amount.csv").write_text(AMOUNT)
    return gateway


@pytest.fixture
def connect(lodge) -> Iterator[Callable[..., SparkSession]]:
    """Create client sessions that end with the test."""
    sessions = []

    def make(gateway=lodge, **parameters: str) -> SparkSession:
        suffix = "".join(f";{key}={value}" for key, value in parameters.items())
        address = gateway.address if ";" in gateway.address else f"{gateway.address}/"
        session = SparkSession.builder.remote(address + suffix).create()
        sessions.append((gateway, session))
        return session

    yield make
    for gateway, session in sessions:
        stop_session(gateway, session)


def stop_session(gateway, session: SparkSession) -> None:
    """Release a session, if its gateway is still running."""
    if gateway.process.poll() is None:
        session.stop()
    else:
        session.client.close()  # without a call: the client would retry at the dead gateway for minutes


@pytest.fixture
def spark(connect) -> SparkSession:
    return connect()


@pytest.fixture(scope="module")
def shared_spark(lodge) -> Iterator[SparkSession]:
    """A session for the tests of a module that do not change it.

    Spark starts six Python processes for the first scan of each session, which costs seconds of processor time.
    """
    session = SparkSession.builder.remote(f"{lodge.address}/").create()
    yield session
    stop_session(lodge, session)


@pytest.fixture
def restored_spark(shared_spark) -> Iterator[SparkSession]:
    """The shared session, for a test that changes it.

    After the test, its settings are those of before, and its temporary tables, views and functions are gone.
    """
    before = shared_spark.conf.getAll
    yield shared_spark
    for table in shared_spark.sql("show temporary tables").collect():
        shared_spark.sql(f"drop table {quote_name(table.tableName)}")
    for view in shared_spark.sql("show views").collect():
        shared_spark.catalog.dropTempView(view.viewName)
    for function in shared_spark.sql("show user functions").collect():
        shared_spark.sql(f"drop temporary function {quote_name(function.function)}")
    after = shared_spark.conf.getAll
    for key in after.keys() - before.keys():
        shared_spark.conf.unset(key)
    for key, value in before.items():
        if after.get(key) != value:
            shared_spark.conf.set(key, value)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A writable workspace in a directory, without a gateway."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "dfs").mkdir()
    uris = {"dfs.tmp": (tmp_path / "tmp").as_uri(), "dfs": (tmp_path / "dfs").as_uri()}
    return Workspaces.from_uris(uris, "dfs.tmp", ["dfs"]).by_name["dfs"]
