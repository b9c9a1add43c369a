"""A NameNode and a DataNode of HDFS in one process, for tests of raw files in HDFS.

It listens only on the loopback interface. It has no Kerberos: like every HDFS without it, it believes the name that a
client gives.
"""

import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyarrow.fs import HadoopFileSystem

from tests.cluster.builds import program
from tests.cluster.processes import Process
from tests.cluster.storage_server import StorageServer
from tests.quick_java import QUICK_JAVA

SUPERUSER = "superuser"
"""The user of the server, who may read and write everything."""


class HdfsServer(StorageServer):
    """A server, whose port is that of the NameNode."""

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

    def _process(self, directory: Path) -> Process:
        is_ready = directory / "is_ready"
        java = [
            "java",
            *QUICK_JAVA,
            "-Xmx512m",
            f"-Djava.io.tmpdir={directory}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]
        addresses = [f"-nnport={self.port}", "-datanodes=1", "-format", f"-writeDetails={is_ready}"]
        place = ["-D", f"hdfs.minidfs.basedir={directory / 'data'}"]
        jars = f"{program('hdfs-jars')}/*"
        command = [*java, "-cp", jars, "org.apache.hadoop.test.MiniDFSClusterManager", *addresses, *place]
        superuser = {"HADOOP_USER_NAME": SUPERUSER}
        return Process(command, directory / "hdfs.log", is_ready=is_ready.exists, environment=superuser)


def client_environment() -> Mapping[str, str]:
    """Return the environment variables with which Arrow finds the client of HDFS, whose jars are those of Spark."""
    return {
        "ARROW_LIBHDFS_DIR": str(program("libhdfs.so").parent),
        "CLASSPATH": f"{Path(pyspark.__file__).with_name('jars')}/*",
        "JAVA_HOME": str(Path(shutil.which("java") or "java").resolve().parents[1]),
        "LIBHDFS_OPTS": "-Xrs -Xmx128m",
    }
