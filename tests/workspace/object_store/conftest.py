"""Fixtures for an S3 server, with credentials in the environment."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.s3 import S3Server
from tests.workspace.object_store.raw_s3 import RawS3
from tests.workspace.object_store.servers import Server, over_files
from tests.workspace.object_store.storages import Objects, give_credentials


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def server(s3_programs: None, tmp_path: Path) -> Iterator[Server]:
    """Return a server that only this test uses and may kill."""
    with over_files(tmp_path) as server:
        give_credentials(server.raw.access_key, server.raw.secret_key, os.environ)
        yield server


@pytest.fixture
def raw(s3_server: S3Server) -> RawS3:
    give_credentials(s3_server.access_key, s3_server.secret_key, os.environ)
    return RawS3(s3_server.endpoint, s3_server.access_key, s3_server.secret_key)


@pytest.fixture
def storage(raw: RawS3, bucket: str) -> Objects:
    return Objects(raw, bucket)
