"""URIs of workspaces in an object store (workspace.object_store.addresses, workspace.workspaces)."""

from pathlib import Path

import pytest

from workspace.object_store.addresses import ObjectAddress, ObjectAddressError
from workspace.workspaces import NotFileBasedError, Workspaces, WorkspaceSettingError


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("s3://bucket/lodge", ObjectAddress("bucket", "lodge")),
        ("s3://my.bucket-1/a/b_c/d=1/", ObjectAddress("my.bucket-1", "a/b_c/d=1")),
        (
            "s3://bucket/lodge?endpoint_override=127.0.0.1:9000&scheme=http&region=us-east-1",
            ObjectAddress("bucket", "lodge", "127.0.0.1:9000", "http", "us-east-1"),
        ),
        ("s3://bucket/lodge?endpoint_override=%5B::1%5D:9000", ObjectAddress("bucket", "lodge", "[::1]:9000")),
        ("s3://bucket/lodge?region=eu-central-1", ObjectAddress("bucket", "lodge", region="eu-central-1")),
    ],
)
def test_uri_round_trip(uri: str, address: ObjectAddress) -> None:
    found = ObjectAddress.from_uri(uri)
    assert found == address
    assert ObjectAddress.from_uri(found.uri) == found
    assert found.storage_path == f"s3://{address.bucket}/{address.prefix}"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("s3://bucket", "prefix in the bucket"),
        ("s3://bucket/", "prefix in the bucket"),
        ("s3://bucket/a//b", "prefix in the bucket"),
        ("s3://bucket/../b", "prefix in the bucket"),
        ("s3://bucket/a/./b", "prefix in the bucket"),
        ("s3://bucket/a b", "prefix in the bucket"),
        ("s3://bucket/a%2e%2e", "prefix in the bucket"),
        ("s3://bucket/ü", "prefix in the bucket"),
        ("s3:///lodge", "does not name a bucket"),
        ("s3://Bucket/lodge", "does not name a bucket"),
        ("s3://bucket:9000/lodge", "does not name a bucket"),
        ("s3://bucket/lodge#x", "does not name a bucket"),
        ("gs://bucket/lodge", "does not name a bucket"),
        ("s3://[/lodge", "is invalid"),
        ("s3://bucket/lodge?scheme=ftp", "neither http nor https"),
        ("s3://bucket/lodge?endpoint_override=http://host", "endpoint_override"),
        ("s3://bucket/lodge?endpoint_override=user@host", "endpoint_override"),
        ("s3://bucket/lodge?region=a%20b", "region"),
        ("s3://bucket/lodge?allow_bucket_creation=true", "allow_bucket_creation"),
    ],
)
def test_invalid_uri_is_refused(uri: str, reason: str) -> None:
    with pytest.raises(ObjectAddressError, match=reason):
        ObjectAddress.from_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIAKEY:verysecret@bucket/lodge",
        "s3://bucket/lodge?access_key=AKIAKEY&secret_key=verysecret",
        "s3a://AKIAKEY:verysecret@bucket/lodge",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(WorkspaceSettingError) as failed:
        Workspaces.from_uris({"dfs.tmp": uri}, "dfs.tmp")
    assert "AKIAKEY" not in str(failed.value)
    assert "verysecret" not in str(failed.value)
    assert failed.value.__suppress_context__ or failed.value.__context__ is None


def test_temporary_workspace_may_be_in_an_object_store(tmp_path: Path) -> None:
    uris = {"dfs": tmp_path.as_uri(), "dfs.tmp": "s3://bucket/lodge?region=eu-central-1"}
    workspaces = Workspaces.from_uris(uris, "dfs.tmp")
    temporary = workspaces.temporary
    assert (temporary.storage_path, temporary.uri) == ("s3://bucket/lodge", "s3://bucket/lodge?region=eu-central-1")
    assert not temporary.is_file_based
    assert temporary.is_writable
    assert workspaces.temporary_roots == ("s3://bucket/lodge",)
    with pytest.raises(NotFileBasedError, match=r"\[dfs.tmp\]"):
        _ = temporary.root
    with pytest.raises(FileNotFoundError, match="contains only temporary tables"):
        workspaces.resolve(temporary, "file.csv")
    with pytest.raises(WorkspaceSettingError, match=r"workspace \[dfs.tmp\] is \[.*\], but must name a prefix"):
        Workspaces.from_uris({**uris, "dfs.tmp": "s3://bucket"}, "dfs.tmp")
