"""The storage, backend and nodes that several Lodges of these tests share."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Self

from kubernetes.client import CoreV1Api

from tests.chaos.backend import Backend
from tests.chaos.storage import Storage
from tests.chaos.wall_clock import MissingCompilerError, compile_library
from tests.cluster.cluster import Cluster
from tests.cluster.nodes import Node
from tests.gateway.objects import s3a
from tests.workspace.kubernetes.tcp_proxy import TcpProxy
from tests.workspace.object_store.servers import Server, over_files
from tests.workspace.object_store.storages import give_credentials

_NODES = 3


class Testbed:
    """A storage, a backend on it, and nodes.

    Args:
        cluster: The cluster of the nodes and of each Lodge's namespace.
        directory: The directory of all files.
        has_s3: Whether an S3 server on the storage is needed.

    Attributes:
        s3: The S3 server, with one bucket; None if it is not needed.
        clock_library: The library for wall clocks; None if it cannot be compiled.
        missing_because: Why some faults cannot run on this machine.
    """

    def __init__(self, cluster: Cluster, directory: Path, *, has_s3: bool = False) -> None:
        self.cluster = cluster
        self.directory = directory
        self.storage = Storage(directory)
        self.s3: Server | None = None
        self._has_s3 = has_s3
        self._stack = ExitStack()
        self.clock_library: Path | None = None
        self.missing_because = [] if self.storage.can_hang else ["The kernel has no FUSE, so the storage cannot hang."]
        try:
            self.clock_library = compile_library(directory)
        except MissingCompilerError as error:
            self.missing_because.append(str(error))

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.storage)
            spark = self.directory / "spark"
            spark.mkdir()
            more, environment = self._start_s3(stack) if self._has_s3 else ({}, {})
            self.backend = Backend(spark, self.storage.prefix, more, environment)
            self.backend_proxy = stack.enter_context(TcpProxy(self.backend.port))
            stack.callback(self.backend.process.kill)
            with ThreadPoolExecutor() as threads:
                starting = threads.submit(self.backend.process.start)
                self.nodes: Sequence[Node] = [self._node(stack) for _ in range(_NODES)]
                starting.result()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def backend_address(self) -> str:
        """The address of the backend for gateways, behind a proxy whose connections a fault can break."""
        return f"sc://127.0.0.1:{self.backend_proxy.port}"

    @cached_property
    def core(self) -> CoreV1Api:
        """A client with the administrator's permissions."""
        return CoreV1Api(self.cluster.client)

    def _start_s3(self, stack: ExitStack) -> tuple[Mapping[str, str], dict[str, str]]:
        """Start the S3 server, and return the settings and the environment variables of Spark."""
        log = self.directory / "s3.log"
        server = over_files(self.storage.path, prefix=self.storage.prefix, outside=self.storage.root, log=log)
        self.s3 = stack.enter_context(server)
        environment: dict[str, str] = {}
        give_credentials(server.raw.access_key, server.raw.secret_key, environment)
        return s3a.settings(s3a.jars(), server.raw.endpoint), environment

    def _node(self, stack: ExitStack) -> Node:
        node = self.cluster.node()
        stack.callback(node.remove)
        return node
