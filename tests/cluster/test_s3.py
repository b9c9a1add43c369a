"""The S3 server of the tests behaves like S3."""

import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from tests.cluster.s3 import REGION


def test_stored_objects_are_listed_and_read(s3_server, bucket):
    files = s3_server.filesystem()
    content = b"row\n" * 3_000_000
    with files.open_output_stream(f"{bucket}/session/table/part-0") as stream:
        stream.write(content)
    with files.open_input_stream(f"{bucket}/session/table/part-0") as stream:
        assert stream.read() == content
    listed = files.get_file_info(FileSelector(f"{bucket}/session", recursive=True))
    assert [info.path for info in listed if info.is_file] == [f"{bucket}/session/table/part-0"]
    files.delete_dir(f"{bucket}/session")
    assert not files.get_file_info(FileSelector(bucket))


def test_wrong_keys_are_refused(s3_server, bucket):
    stranger = S3FileSystem(
        access_key=s3_server.access_key,
        secret_key="wrong",  # noqa: S106 - that is the point
        endpoint_override=s3_server.endpoint,
        scheme="http",
        region=REGION,
    )
    with pytest.raises(OSError, match=r"SIGNATURE|ACCESS_DENIED|403"):
        stranger.open_output_stream(f"{bucket}/file").close()


def test_restarted_server_keeps_its_objects(s3_server, bucket):
    files = s3_server.filesystem()
    with files.open_output_stream(f"{bucket}/file") as stream:
        stream.write(b"kept")
    with s3_server.process.stopped():
        pass
    with files.open_input_stream(f"{bucket}/file") as stream:
        assert stream.read() == b"kept"
