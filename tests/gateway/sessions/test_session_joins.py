"""How a replica joins sessions again after a lapse of its lease (gateway.sessions.session_joins).

Numbers in names are the guarantees of :mod:`gateway.sessions.registry`.
"""

import uuid
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.sessions.faulty_replica import OWN, Replica, may_act, new_key, renew_until
from workspace.files.leases import FileLeases
from workspace.identifiers import ReplicaId, SessionUuid
from workspace.record_changes import remove_holders, update_record
from workspace.record_store import RecordConflictError
from workspace.session_end import end_session


async def test_guarantee_4_acting_on_a_record_from_before_a_lapse_conflicts(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    [before] = replica.records.list()
    replica.lapse()
    await renew_until(replica, lambda: may_act(replica, session), "the session is joined again")
    with pytest.raises(RecordConflictError):
        end_session(replica.records, replica.locations, before)
    assert replica.sessions.find(session.key) is session


async def test_guarantee_4_session_is_fenced_until_it_is_joined_again(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.lapse()
    assert not may_act(replica, session)
    replica.records.is_unavailable = True
    await replica.sessions.renew_lease()
    await replica.sessions.renew_lease()
    assert not may_act(replica, session)
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: may_act(replica, session), "the session is joined again")
    [stored] = replica.records.list()
    assert stored.record.holders == {OWN}


async def test_rejoin_leaves_a_later_session_of_the_same_name_alone(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    [before] = replica.records.list()
    replica.lapse()
    end_session(replica.records, replica.locations, before)
    later = replace(before.record, session_uuid=SessionUuid(str(uuid.uuid4())), holders=frozenset({ReplicaId("r2")}))
    stored = replica.records.create(later)
    await renew_until(replica, lambda: replica.sessions.find(session.key) is None, "the session is no longer served")
    assert replica.records.read(later.name) == stored


async def test_lapse_during_a_renewal_is_noticed(replica: Replica, monkeypatch: Any) -> None:
    session = await replica.sessions.open(new_key())
    renew = FileLeases.renew

    def renew_slowly(leases: FileLeases, name: ReplicaId) -> None:
        replica.lapse()
        renew(leases, name)

    monkeypatch.setattr(FileLeases, "renew", renew_slowly)
    await replica.sessions.renew_lease()
    update_record(replica.records, session.record_name, lambda record: remove_holders(record, {OWN}))
    monkeypatch.setattr(FileLeases, "renew", renew)
    await renew_until(replica, lambda: replica.holders() == [{OWN}], "the session is joined again")
