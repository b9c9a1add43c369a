"""A gateway in front of a shared Spark server, and unmodified PySpark clients."""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql.connect.session import SparkSession

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
