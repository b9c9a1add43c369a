"""An S3 server on a local directory, for tests of workspaces in an object store."""

import http.client
import secrets
from pathlib import Path

from pyarrow.fs import S3FileSystem

from tests.cluster.builds import program
from tests.cluster.processes import Process
from tests.cluster.storage_server import StorageServer

REGION = "us-east-1"
_PROBE_SECONDS = 2.0


class S3Server(StorageServer):
    """An S3 server for plain HTTP. If it stops, its data remains until the end.

    Attributes:
        access_key: The access key of its only account.
        secret_key: The secret key of that account.
    """

    def __init__(self) -> None:
        super().__init__()
        self.access_key = "lodge"
        self.secret_key = secrets.token_urlsafe()

    @property
    def url(self) -> str:
        return f"http://{self.endpoint}"

    def filesystem(self) -> S3FileSystem:
        return S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.endpoint,
            scheme="http",
            region=REGION,
            allow_bucket_creation=True,
        )

    def bucket(self, prefix: str = "test") -> str:
        """Create a bucket and return its name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.filesystem().create_dir(name)
        return name

    def _process(self, directory: Path) -> Process:
        objects, attributes = directory / "objects", directory / "attributes"
        for path in (objects, attributes):
            path.mkdir()
        command = [
            program("versitygw"),
            f"--address={self.endpoint}",
            f"--attributes={attributes}",
            f"--region={REGION}",
            objects,
        ]
        return Process(
            command,
            directory / "versitygw.log",
            is_ready=self._answers,
            environment={"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key},
        )

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.endpoint, timeout=_PROBE_SECONDS)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
