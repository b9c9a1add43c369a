"""What the servers of object stores and HDFS in the tests have in common."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pyarrow.fs import FileSystem

from tests.cluster.directories import owned_directory
from tests.cluster.ports import free_port
from tests.cluster.processes import Process


class StorageServer(ABC):
    """A context manager of a server that listens only on the loopback interface. Its data is removed at the end.

    Attributes:
        port: The port of the server.
        endpoint: Its address, ``host:port``.
        process: The server's process. Tests may pause, kill or start it.
    """

    process: Process

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.process = self._process(stack.enter_context(owned_directory()))
            stack.callback(self.process.kill)
            self.process.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @abstractmethod
    def filesystem(self) -> FileSystem:
        """Open the server's storage as an ordinary client does."""

    @abstractmethod
    def _process(self, directory: Path) -> Process:
        """Return the process, which has not started. Its files are in the directory."""
