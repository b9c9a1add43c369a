"""The retry of failed updates of session records (gateway.sessions.settlement).

Numbers in names are the guarantees of :mod:`gateway.sessions.registry`.
"""

import pytest

from gateway.errors import GatewayError
from tests.gateway.sessions.faulty_replica import OWN, Replica, new_key, renew_until
from workspace.identifiers import ReplicaId
from workspace.record_changes import add_holder, update_record
from workspace.session_end import end_session


async def test_guarantee_6_failed_end_is_retried(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    await replica.sessions.locations.create(session)
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="released by the client")
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: not replica.records.list(), "the session has ended")
    assert not replica.locations.list()


async def test_guarantee_6_failed_open_does_not_replace_a_failed_end(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="released by the client")
    with pytest.raises(GatewayError):
        await replica.sessions.open(session.key)
    replica.records.is_unavailable = False
    await renew_until(replica, lambda: replica.holders() != [{OWN}], "the record no longer names this replica")
    assert not replica.records.list(), "the session has ended"


async def test_guarantee_6_failed_open_of_a_later_session_is_undone_after_a_failed_end(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.loses_answers = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="released by the client")
    end_session(replica.records, replica.locations, replica.records.read(session.record_name))
    with pytest.raises(GatewayError):
        await replica.sessions.open(session.key)
    [later] = replica.records.list()
    assert later.record.session_uuid != session.uuid
    replica.records.loses_answers = False
    await renew_until(replica, lambda: replica.holders() == [set()], "the record no longer names this replica")


async def test_retried_end_leaves_a_session_that_another_replica_adopted(replica: Replica) -> None:
    session = await replica.sessions.open(new_key())
    replica.records.is_unavailable = True
    with pytest.raises(GatewayError):
        await replica.sessions.ends.end(session, reason="closed at the backend")
    replica.records.is_unavailable = False
    other = ReplicaId("r2")
    update_record(replica.records, session.record_name, lambda record: add_holder(record, other))
    await renew_until(replica, lambda: replica.holders() == [{other}], "this replica leaves it")


async def test_guarantee_6_failed_open_is_undone_unless_the_client_returns(replica: Replica) -> None:
    gone, back = new_key(), new_key()
    replica.records.loses_answers = True
    for key in (gone, back):
        with pytest.raises(GatewayError):
            await replica.sessions.open(key)
    replica.records.loses_answers = False
    session = await replica.sessions.open(back)
    await renew_until(
        replica, lambda: sorted(replica.holders(), key=len) == [set(), {OWN}], "one is served, the other left"
    )
    assert replica.sessions.find(back) is session
    assert replica.records.read(session.record_name).record.holders == {OWN}
