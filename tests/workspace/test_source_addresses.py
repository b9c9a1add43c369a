"""The URIs of workspaces in object stores and HDFS."""

import pytest

from workspace.source_addresses import SourceAddress, SourceAddressError

VALID = [
    "s3://bucket",
    "s3://bucket/a/b%20c",
    "s3://bucket/a?endpoint_override=localhost%3A9000&scheme=http&region=eu-central-1&anonymous=true",
    "gs://bucket/a?anonymous=true",
    "abfss://container@account.dfs.core.windows.net/a",
    "abfss://container@account.dfs.core.windows.net/a?endpoint_override=localhost%3A10000&scheme=http",
    "hdfs://namenode:8020/data",
]


@pytest.mark.parametrize("uri", VALID)
def test_uri_is_read_and_written(uri):
    address = SourceAddress.from_uri(uri)
    assert address.uri == uri
    assert address.storage_path == uri.partition("?")[0]


def test_slashes_at_the_end_do_not_matter():
    assert SourceAddress.from_uri("s3://bucket/a/") == SourceAddress.from_uri("s3://bucket/a")


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("ftp://host/a", "unknown scheme; the schemes are file, s3, gs, abfss, hdfs"),
        ("s3://", "does not name a directory; use a URI such as s3://bucket/prefix"),
        ("s3://Bucket/a", "does not name a directory"),
        ("s3://bucket/a/../b", "does not name a directory"),
        ("s3://bucket/a//b", "does not name a directory"),
        ("s3://bucket/a%2F..%2Fb", "does not name a directory"),
        ("s3://bucket/a#b", "does not name a directory"),
        ("s3://[bucket/a", "is invalid"),
        ("abfss://account.dfs.core.windows.net/a", "abfss://container@account"),
        ("s3://key:secret@bucket/a", "contains credentials"),
        ("abfss://container:secret@account.dfs.core.windows.net/a", "contains credentials"),
        ("s3://bucket/a?access_key=x", "unknown option .access_key.; the known options are"),
        ("abfss://c1-@account.dfs.core.windows.net/a?account_key=x", "does not name a directory"),
        ("hdfs://namenode/a?user=x", "unknown option .user.; this scheme has no options"),
        ("s3://bucket/a?endpoint_override=http://host", "invalid .endpoint_override.; use for example"),
        ("s3://bucket/a?anonymous=yes", "invalid .anonymous."),
    ],
)
def test_other_uris_are_refused_without_their_secrets(uri, reason):
    with pytest.raises(SourceAddressError, match=reason) as refused:
        SourceAddress.from_uri(uri)
    assert "secret" not in str(refused.value)
