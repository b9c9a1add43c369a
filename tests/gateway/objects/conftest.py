"""A gateway, a reaper and Spark on an object store, with records on Kubernetes."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from pyspark.sql.connect.session import SparkSession

from tests.cluster.cluster import Cluster
from tests.cluster.ports import free_port
from tests.cluster.processes import Process
from tests.cluster.s3 import S3Server
from tests.gateway.objects import s3a
from tests.maven import MissingMavenError
from tests.reaper.kubernetes.conftest import CRD
from tests.skips import skip_missing
from tests.workspace.object_store.raw_s3 import RawS3
from tests.workspace.object_store.storages import Objects, give_credentials
from workspace.kubernetes.connection import connect as connect_to_kubernetes
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.object_store.session_locations import ObjectSessionLocations

LEASE_SECONDS, GRACE_SECONDS = 10, 5


@dataclass
class InAnObjectStore:
    """A gateway on an object store.

    Attributes:
        address: The address of the gateway.
        storage: The default temporary workspace, read without Lodge.
        locations: The session locations.
        records: The session records.
        gateway: The process of the gateway. A test that kills it must start it again.
        reaper: The process of the reaper.
    """

    address: str
    storage: Objects
    locations: ObjectSessionLocations
    records: KubernetesSessionRecords
    gateway: Process
    reaper: Process


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
    start_spark: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    try:
        jars = s3a.jars()
    except MissingMavenError as missing:
        skip_missing(str(missing))
    more = s3a.settings(jars, s3_server.endpoint)
    address: str = start_spark(tmp_path_factory.mktemp("spark"), more=more).address
    return address


@pytest.fixture(scope="module")
def in_object_store(
    cluster: Cluster, s3_server: S3Server, spark_on_s3: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InAnObjectStore]:
    cluster.apply(list(yaml.safe_load_all(CRD.read_text())))
    namespace = cluster.namespace("objects")
    connection = connect_to_kubernetes(cluster.kubeconfig, namespace, "lodge")
    bucket = s3_server.bucket()
    storage = Objects(RawS3(s3_server.endpoint, s3_server.access_key, s3_server.secret_key), bucket)
    directory = tmp_path_factory.mktemp("lodge")
    (directory / "dfs").mkdir()
    port, probes = free_port(), free_port()
    options = {
        "workspace": f"dfs={(directory / 'dfs').as_uri()}",
        "records": "kubernetes",
        "kubeconfig": cluster.kubeconfig,
        "namespace": namespace,
        "lease-duration": f"{LEASE_SECONDS}s",
        "grace-period": f"{GRACE_SECONDS}s",
    }
    common = [f"--workspace=dfs.tmp={storage.address.uri}", *(f"--{key}={value}" for key, value in options.items())]
    lodge = [sys.executable, "-m", "lodge"]
    serve = [*lodge, "serve", *common, f"--listen=127.0.0.1:{port}", f"--backend={spark_on_s3}", "--no-reaper"]
    reap = [*lodge, "reap", *common, f"--metrics-listen=127.0.0.1:{probes}"]
    gateway = Process([*serve, "--writable-workspace=dfs"], directory / "gateway.log", is_ready=lambda: _listens(port))
    reaper = Process(reap, directory / "reaper.log", is_ready=lambda: _listens(probes))
    try:
        gateway.start()
        reaper.start()
        yield InAnObjectStore(
            f"sc://127.0.0.1:{port}",
            storage,
            storage.opened(KubernetesRootIds(connection)),
            KubernetesSessionRecords(connection),
            gateway,
            reaper,
        )
    finally:
        gateway.kill()
        reaper.kill()
        for stored in KubernetesSessionRecords(connection).list():
            KubernetesSessionRecords(connection).delete(stored.record.name, stored.version)
        cluster.delete_namespace(namespace)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.fixture
def connect(in_object_store: InAnObjectStore) -> Iterator[Callable[[], SparkSession]]:
    sessions: list[SparkSession] = []

    def make() -> SparkSession:
        sessions.append(SparkSession.builder.remote(in_object_store.address).create())
        return sessions[-1]

    yield make
    for session in sessions:
        session.stop()


@pytest.fixture(scope="module")
def shared_spark(in_object_store: InAnObjectStore) -> Iterator[SparkSession]:
    session = SparkSession.builder.remote(in_object_store.address).create()
    yield session
    session.stop()


@pytest.fixture
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    """The shared session, without temporary tables."""
    yield shared_spark
    for table in shared_spark.sql("show temporary tables").collect():
        shared_spark.sql(f"drop table {table.tableName}").collect()
