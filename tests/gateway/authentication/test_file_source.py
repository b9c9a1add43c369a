"""Files that the gateway cannot use as a source of keys, tokens or authorities."""

import os
import stat
from pathlib import Path

import pytest

from gateway.authentication import client_certificates
from gateway.authentication.client_certificates import CertificateMethod, CertificateSettings
from gateway.authentication.file_source import read_file
from gateway.authentication.source import SourceError
from tests.identity.certificates import CertificateAuthority

MAX_BYTES = 1000


def read(path: Path) -> bytes:
    return read_file(
        path, label="The list", max_bytes=MAX_BYTES, if_unreadable="Check the path.", if_too_large="Shorten it."
    )


@pytest.mark.parametrize("size", [0, 1, MAX_BYTES])
def test_file_is_read(tmp_path: Path, size: int) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"x" * size)
    assert read(path) == b"x" * size


def test_larger_file_is_refused_instead_of_truncated(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(SourceError) as refused:
        read(path)
    assert str(refused.value) == f"The list [{path}] has more than 1,000 bytes. Shorten it."


def test_endless_file_is_refused() -> None:
    with pytest.raises(SourceError, match=r"The list \[/dev/zero\] has more than 1,000 bytes"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize(("name", "problem"), [("missing", "No such file or directory"), (".", "Is a directory")])
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(tmp_path / name)
    assert str(refused.value) == f"The list [{tmp_path / name}] cannot be read: {problem}. Check the path."


def test_check_sees_the_status_of_the_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"x")
    path.chmod(0o640)
    modes: list[int] = []

    def check(status: os.stat_result) -> None:
        modes.append(stat.S_IMODE(status.st_mode))
        raise SourceError("no")

    with pytest.raises(SourceError, match="no"):
        read_file(path, label="The list", max_bytes=MAX_BYTES, if_unreadable="", if_too_large="", check=check)
    assert modes == [0o640]


def test_authorities_that_exceed_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "clients.crt"
    authority = CertificateAuthority(tmp_path).certificate.read_bytes()
    monkeypatch.setattr(client_certificates, "_MAX_FILE_BYTES", len(authority))
    path.write_bytes(authority)
    CertificateMethod(CertificateSettings(), path)
    path.write_bytes(authority * 2)
    with pytest.raises(SourceError) as refused:
        CertificateMethod(CertificateSettings(), path)
    assert str(refused.value).startswith(f"The tls.client_ca file [{path}] has more than {len(authority):,} bytes.")
