"""A NameNode and a DataNode of HDFS in one process, for tests of raw files in HDFS.

It listens only on the loopback interface. It has no Kerberos: like every HDFS without it, it believes the name that a
client gives.
"""

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import pyspark
from pyarrow.fs import HadoopFileSystem

from tests.cluster.builds import program
from tests.cluster.directories import owned_directory
from tests.cluster.ports import free_port
from tests.cluster.processes import Process

SUPERUSER = "superuser"
"""The user of the server, who may read and write everything."""


class HdfsServer:
    """A context manager of a server. Its data is removed at the end.

    Attributes:
        port: The port of the NameNode.
        process: The server's process. Tests may pause it, or kill it.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            directory = stack.enter_context(owned_directory())
            is_ready = directory / "is_ready"
            self.process = Process(
                self._command(directory, is_ready),
                directory / "hdfs.log",
                is_ready=is_ready.exists,
                environment={"HADOOP_USER_NAME": SUPERUSER},
            )
            stack.callback(self.process.kill)
            self.process.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def filesystem(self, umask: str = "022") -> HadoopFileSystem:
        """Open the server's storage as its superuser. This process needs the variables of `client_environment`.

        Args:
            umask: The permissions that new files and directories do not have.
        """
        permissions = {"fs.permissions.umask-mode": umask}
        return HadoopFileSystem("127.0.0.1", self.port, user=SUPERUSER, extra_conf=permissions)

    @contextmanager
    def directory(self) -> Iterator[str]:
        """Create a directory for the tests, and remove it at the end, because others may list the whole storage.

        Yields:
            Its path.
        """
        path = f"/test-{secrets.token_hex(4)}"
        self.filesystem().create_dir(path)
        try:
            yield path
        finally:
            self.filesystem().delete_dir(path)

    def uri(self, path: str) -> str:
        """Return the URI of a workspace of Lodge."""
        return f"hdfs://127.0.0.1:{self.port}{path}"

    def _command(self, directory: Path, is_ready: Path) -> list[str | Path]:
        java = ["java", "-Xmx512m", f"-Djava.io.tmpdir={directory}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        addresses = [f"-nnport={self.port}", "-datanodes=1", "-format", f"-writeDetails={is_ready}"]
        place = ["-D", f"hdfs.minidfs.basedir={directory / 'data'}"]
        jars = f"{program('hdfs-jars')}/*"
        return [*java, "-cp", jars, "org.apache.hadoop.test.MiniDFSClusterManager", *addresses, *place]


def client_environment() -> Mapping[str, str]:
    """Return the environment variables with which Arrow finds the client of HDFS, whose jars are those of Spark."""
    return {
        "ARROW_LIBHDFS_DIR": str(program("libhdfs.so").parent),
        "CLASSPATH": f"{Path(pyspark.__file__).with_name('jars')}/*",
        "JAVA_HOME": str(Path(shutil.which("java") or "java").resolve().parents[1]),
        "LIBHDFS_OPTS": "-Xrs -Xmx128m",
    }
