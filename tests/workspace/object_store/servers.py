"""S3 servers that a test may kill, pause and restart in other ways; their data stays."""

import http.client
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.cluster.builds import program
from tests.cluster.ports import free_port
from tests.cluster.processes import Process
from tests.workspace.object_store.raw_s3 import RawS3

BUCKET = "bucket"


class Server:
    """A context manager that runs a server for one test.

    Attributes:
        raw: A client for its only account.
        process: The process, which a test may kill, pause and restart.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, raw: RawS3) -> None:
        self.raw = raw
        environment = {"ROOT_ACCESS_KEY": raw.access_key, "ROOT_SECRET_KEY": raw.secret_key}
        self.process = Process(command, log, is_ready=self._answers, environment=environment)

    def __enter__(self) -> Self:
        self.process.start()
        self.raw.request("PUT", f"/{BUCKET}")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()

    def _answers(self) -> bool:
        try:
            self.raw.request("GET", "/")
        except (OSError, http.client.HTTPException):
            return False
        return True


def over_files(
    directory: Path, *options: str, prefix: Sequence[str] = (), outside: Path | None = None, log: Path | None = None
) -> Server:
    """Return a versitygw, which stores the objects of a bucket as files in ``objects/bucket``.

    Args:
        directory: The directory of the files, as the server sees it.
        options: Further options of the server.
        prefix: Words before the command of the server.
        outside: The same directory, as this process sees it; by default the same path.
        log: The log of the server; by default in the directory.
    """
    names = ("objects", "attributes")
    for name in names:
        ((outside or directory) / name).mkdir(exist_ok=True)
    objects, attributes = (directory / name for name in names)
    raw = _account()
    command = [*prefix, program("versitygw"), f"--address={raw.endpoint}", f"--attributes={attributes}", *options]
    return Server([*command, objects], log or directory / "versitygw.log", raw)


def with_exact_keys(directory: Path) -> Server:
    """Return a gofakes3, for which keys are texts, as they are for AWS."""
    raw = _account()
    return Server([program("gofakes3"), "-host", raw.endpoint, "-backend", "memory"], directory / "gofakes3.log", raw)


@contextmanager
def read_only(server: Server, directory: Path) -> Iterator[Server]:
    """Return another server over the same files that refuses all changes."""
    with over_files(directory, "--readonly") as other:
        yield other


def _account() -> RawS3:
    return RawS3(f"127.0.0.1:{free_port()}", f"access{secrets.token_hex(4)}", secrets.token_hex(16))
