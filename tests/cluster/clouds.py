"""Servers with the interfaces of Google Cloud Storage and Azure, for tests of raw files in object stores.

Their data is in memory and ends with them. Azurite offers the interface for blobs only, not the one for hierarchical
namespaces.
"""

import http.client
import json
import secrets
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from pyarrow.fs import AzureFileSystem, FileSystem, GcsFileSystem

from tests.cluster.builds import program
from tests.cluster.processes import Process
from tests.cluster.storage_server import StorageServer

AZURE_ACCOUNT = "devstoreaccount1"
_PROBE_SECONDS = 2.0


class CloudServer(StorageServer):
    """A server for plain HTTP."""

    @abstractmethod
    def bucket(self) -> str:
        """Create a bucket, which Azure calls container, and return its name."""

    @abstractmethod
    def uri(self, bucket: str, prefix: str) -> str:
        """Return the URI of a workspace of Lodge."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """Return the command line."""

    def _environment(self) -> dict[str, str]:
        return {}

    def _process(self, directory: Path) -> Process:
        log = directory / "server.log"
        return Process(self._command(), log, is_ready=self._answers, environment=self._environment())

    def _answers(self) -> bool:
        try:
            self._request("GET", "/")
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _request(self, method: str, path: str, body: str = "") -> None:
        connection = http.client.HTTPConnection(self.endpoint, timeout=_PROBE_SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        finally:
            connection.close()


class GcsServer(CloudServer):
    """A server with the interface of Google Cloud Storage. It accepts every client."""

    def filesystem(self) -> FileSystem:
        return GcsFileSystem(anonymous=True, scheme="http", endpoint_override=self.endpoint)

    def bucket(self) -> str:
        name = f"test-{secrets.token_hex(4)}"
        self._request("POST", "/storage/v1/b?project=test", json.dumps({"name": name}))
        return name

    def uri(self, bucket: str, prefix: str) -> str:
        return f"gs://{bucket}/{prefix}?endpoint_override={self.endpoint}&scheme=http&anonymous=true"

    def _command(self) -> Sequence[str | Path]:
        address = ("-scheme=http", "-host=127.0.0.1", f"-port={self.port}", f"-external-url=http://{self.endpoint}")
        return [program("fake-gcs-server"), *address, "-backend=memory"]


class AzureServer(CloudServer):
    """A server with the interface of Azure Blob Storage.

    Attributes:
        account_key: The key of its only account.
    """

    def __init__(self) -> None:
        super().__init__()
        self.account_key = secrets.token_hex(32)  # hexadecimal digits are valid Base64

    def filesystem(self) -> FileSystem:
        return AzureFileSystem(
            AZURE_ACCOUNT,
            account_key=self.account_key,
            blob_storage_authority=self.endpoint,
            dfs_storage_authority=self.endpoint,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )

    def bucket(self) -> str:
        name = f"test-{secrets.token_hex(4)}"
        self.filesystem().create_dir(name)
        return name

    def uri(self, bucket: str, prefix: str) -> str:
        place = f"{bucket}@{AZURE_ACCOUNT}.dfs.core.windows.net/{prefix}"
        return f"abfss://{place}?endpoint_override={self.endpoint}&scheme=http"

    def _command(self) -> Sequence[str | Path]:
        address = ("--blobHost", "127.0.0.1", "--blobPort", str(self.port))
        # Arrow uses a later version of the interface than the server knows.
        quiet = ("--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence")
        return [program("azurite-blob"), *address, *quiet]

    def _environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{AZURE_ACCOUNT}:{self.account_key}"}
