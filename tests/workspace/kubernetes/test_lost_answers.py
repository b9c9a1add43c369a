"""Changes whose answer is lost (guarantee 3 of workspace.kubernetes.session_records)."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from tests.records import a_record
from tests.workspace.kubernetes.tcp_proxy import TcpProxy
from workspace.identifiers import ReplicaId
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.leases import KubernetesLeases
from workspace.kubernetes.root_ids import KubernetesRootIds
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.record_changes import add_holder
from workspace.record_store import (
    RecordConflictError,
    RecordExistsError,
    RecordNotFoundError,
    RecordsUnavailableError,
    SessionRecords,
)

A = ReplicaId("a")


@pytest.fixture
def lossy(proxied: Connection) -> KubernetesSessionRecords:
    """Return records through the proxy, with an open connection."""
    records = KubernetesSessionRecords(proxied)
    assert not records.list()
    return records


def test_own_creation_is_recognised(lossy: SessionRecords, records: SessionRecords, proxy: TcpProxy) -> None:
    proxy.lose_answer()
    created = lossy.create(a_record())
    assert records.read(created.record.name) == created


def test_creation_by_another_process_is_not_recognised_as_own(
    lossy: SessionRecords, records: SessionRecords, proxy: TcpProxy
) -> None:
    other = records.create(a_record())
    proxy.lose_answer()
    with pytest.raises(RecordExistsError):
        lossy.create(a_record())
    assert records.read(other.record.name) == other


def test_creation_that_another_process_deleted_is_undecided(
    lossy: SessionRecords, records: SessionRecords, proxy: TcpProxy
) -> None:
    mine, others = a_record(), a_record()

    def take_its_place() -> None:
        stored = records.read(mine.name)
        records.delete(mine.name, stored.version)
        records.create(others)

    proxy.lose_answer(take_its_place)
    with pytest.raises(RecordExistsError):
        lossy.create(mine)
    assert records.read(mine.name).record == others


def test_own_replacement_is_recognised(lossy: SessionRecords, records: SessionRecords, proxy: TcpProxy) -> None:
    stored = lossy.create(a_record())
    proxy.lose_answer()
    replaced = lossy.replace(add_holder(stored.record, A), stored.version)
    assert records.read(stored.record.name) == replaced
    assert replaced.record.holders == {A}


def test_replacement_that_others_changed_since_is_undecided(
    lossy: SessionRecords, records: SessionRecords, proxy: TcpProxy
) -> None:
    stored = lossy.create(a_record())

    def change() -> None:
        found = records.read(stored.record.name)
        records.replace(replace(found.record, created_at="later"), found.version)

    proxy.lose_answer(change)
    with pytest.raises(RecordsUnavailableError, match="may have taken effect"):
        lossy.replace(add_holder(stored.record, A), stored.version)
    assert records.read(stored.record.name).record == replace(add_holder(stored.record, A), created_at="later")


def test_late_replacement_is_a_conflict(lossy: SessionRecords, records: SessionRecords) -> None:
    stored = lossy.create(a_record())
    records.replace(add_holder(stored.record, A), stored.version)
    with pytest.raises(RecordConflictError):
        lossy.replace(add_holder(stored.record, ReplicaId("b")), stored.version)


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_deletion_continues_after_any_lost_answer(
    lossy: SessionRecords, records: SessionRecords, proxy: TcpProxy, answers: int
) -> None:
    stored = lossy.create(a_record())

    proxy.lose_answer(after=answers)
    is_clear = answers < 2  # the last one cannot tell whether this took the finalizer off, or somebody else
    with nullcontext() if is_clear else pytest.raises(RecordsUnavailableError, match="may have taken effect"):
        lossy.delete(stored.record.name, stored.version)
    with pytest.raises(RecordNotFoundError):
        records.read(stored.record.name)


def test_lease_renewal_and_root_id_are_retried(proxied: Connection, proxy: TcpProxy) -> None:
    leases, root_ids = KubernetesLeases(proxied), KubernetesRootIds(proxied)
    assert not leases.list()
    proxy.lose_answer()
    leases.renew(A)
    assert leases.list().keys() == {A}
    proxy.lose_answer()
    leases.delete(A)
    assert not leases.list()
    assert root_ids.expected("/data") is None
    for root in ("/data", "/more"):
        proxy.lose_answer()
        assert root_ids.record(root, "1") == "1"
        proxy.lose_answer()
        assert root_ids.record(root, "2") == "1"
