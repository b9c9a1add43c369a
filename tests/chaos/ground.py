"""What several Lodges of these tests stand on, and what a fault may take from under them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Self

from kubernetes.client import CoreV1Api

from tests.chaos.backend import Backend
from tests.chaos.storage import Storage
from tests.chaos.wall_clock import MissingCompilerError, compiled
from tests.cluster.cluster import Cluster
from tests.cluster.nodes import Node

_NODES = 3


class Ground:
    """A storage, a backend that works on it, and nodes, for ``with``.

    Args:
        cluster: Where the nodes are, and the namespaces of each Lodge.
        directory: Where all of it lives.

    Attributes:
        clock_library: What gives processes wall clocks of their own; None if that cannot be had.
        without_clocks: Why it cannot be had; None if it can.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.storage = Storage(directory)
        self._stack = ExitStack()
        self.clock_library: Path | None = None
        self.without_clocks: str | None = None
        try:
            self.clock_library = compiled(directory)
        except MissingCompilerError as error:
            self.without_clocks = str(error)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.storage)
            spark = self.directory / "spark"
            spark.mkdir()
            self.backend = Backend(spark, self.storage.prefix)
            stack.callback(self.backend.process.kill)
            with ThreadPoolExecutor() as threads:
                starting = threads.submit(self.backend.process.start)
                self.nodes: Sequence[Node] = [self._node(stack) for _ in range(_NODES)]
                starting.result()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def core(self) -> CoreV1Api:
        """The administrator's."""
        return CoreV1Api(self.cluster.client)

    def _node(self, stack: ExitStack) -> Node:
        node = self.cluster.node()
        stack.callback(node.remove)
        return node
