"""A gateway whose default temporary workspace is in an object store, before a Spark that reads and writes there."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession

from gateway.config import GatewayConfig
from gateway.server import Gateway
from tests.cluster.s3 import S3Server
from tests.gateway.objects import s3a
from tests.workspace.objects.raw_s3 import RawS3
from tests.workspace.objects.storages import Objects, give_credentials
from workspace.file_locations import FileSessionLocations
from workspace.lease_files import FileLeases
from workspace.object_locations import ObjectSessionLocations
from workspace.record_files import FileSessionRecords
from workspace.workspaces import Workspaces


@dataclass
class InAnObjectStore:
    """What a test of such a gateway looks at.

    Attributes:
        address: Of the gateway.
        storage: The default temporary workspace, as those see it who are not Lodge.
        locations: The session locations.
        records: The session records.
        files: The workspace ``dfs``, which is a directory.
    """

    address: str
    storage: Objects
    locations: ObjectSessionLocations
    records: FileSessionRecords
    files: Path


@pytest.fixture(scope="module")
def s3_environment(s3_server: S3Server) -> Iterator[None]:
    before = dict(os.environ)
    give_credentials(s3_server.access_key, s3_server.secret_key, os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def spark_on_s3(
    s3_server: S3Server,
    s3_environment: None,
    spark_process_in: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    try:
        jars = s3a.jars()
    except s3a.MissingMavenError as missing:
        pytest.skip(str(missing))
    more = s3a.settings(jars, s3_server.endpoint)
    address: str = spark_process_in(tmp_path_factory.mktemp("spark"), more=more).address
    return address


@pytest.fixture(scope="module")
def in_object_store(
    s3_server: S3Server, spark_on_s3: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InAnObjectStore]:
    storage = Objects(RawS3(s3_server.endpoint, s3_server.access_key, s3_server.secret_key), s3_server.bucket())
    directory = tmp_path_factory.mktemp("gateway")
    files = directory / "dfs"
    files.mkdir()
    home = FileSessionLocations(directory / "records")
    home.initialise()
    records, leases, locations = FileSessionRecords(home.home), FileLeases(home.home), storage.opened()
    uris = {"dfs": files.as_uri(), "dfs.tmp": storage.address.uri}
    config = GatewayConfig(
        listen="127.0.0.1:0",
        backends=(spark_on_s3,),
        workspaces=Workspaces.from_uris(uris, "dfs.tmp", ["dfs"]),
        session_idle_timeout_seconds=600,
        lease_duration_seconds=30,
        backends_end_with_gateway=False,
    )
    with running(Gateway(config, records, leases, locations)) as address:
        yield InAnObjectStore(f"sc://{address}", storage, locations, records, files)


@contextmanager
def running(gateway: Gateway) -> Iterator[str]:
    """Runs a gateway in a thread of its own. Yields: where it listens."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def finished(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    try:
        address = finished(gateway.start())
        try:
            yield address
        finally:
            finished(gateway.stop(5))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def connect(in_object_store: InAnObjectStore) -> Iterator[Callable[[], SparkSession]]:
    sessions: list[SparkSession] = []

    def make() -> SparkSession:
        sessions.append(SparkSession.builder.remote(in_object_store.address).create())
        return sessions[-1]

    yield make
    for session in sessions:
        session.stop()


@pytest.fixture
def spark(connect: Callable[[], SparkSession]) -> SparkSession:
    return connect()
