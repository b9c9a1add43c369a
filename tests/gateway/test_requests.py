"""The head of a request agrees with Spark's decoder for every request."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import GatewayError
from gateway.requests import head, message_field

SESSION = str(uuid.UUID(int=7))
texts = st.text(max_size=20)


@given(user=texts, operation=texts, sql=st.text(max_size=300))
def test_head_agrees_with_the_decoder(user, operation, sql):
    request = base_pb2.ExecutePlanRequest(session_id=SESSION, operation_id=operation, client_type="test")
    request.user_context.user_id = user
    request.user_context.user_name = "a name"
    request.plan.root.sql.query = sql
    data = request.SerializeToString()
    read = head(data, "ExecutePlan")
    assert (read.key.client_session_id, read.key.principal, read.operation_id) == (SESSION, user, operation)
    assert bytes(message_field(data, 3)) == request.plan.SerializeToString()


@given(users=st.lists(texts, min_size=1, max_size=4))
def test_last_of_a_repeated_field_counts(users):
    data = base_pb2.ExecutePlanRequest(session_id=SESSION).SerializeToString()
    for user in users:
        again = base_pb2.ExecutePlanRequest()
        again.user_context.user_id = user
        data += again.SerializeToString()
    decoded = base_pb2.ExecutePlanRequest.FromString(data)
    assert head(data).key.principal == decoded.user_context.user_id


def test_two_plans_in_one_request_are_refused():
    request = base_pb2.ExecutePlanRequest(session_id=SESSION)
    request.plan.root.sql.query = "select 1"
    with pytest.raises(GatewayError, match="field 3 occurs 2 times"):
        message_field(request.SerializeToString() * 2, 3)


@pytest.mark.parametrize("session_id", ["", "no uuid", "../../etc/passwd", SESSION.replace("-", ""), f"{{{SESSION}}}"])
def test_session_id_must_be_a_uuid(session_id):
    with pytest.raises(GatewayError, match="must be an UUID string"):
        _ = head(base_pb2.ConfigRequest(session_id=session_id).SerializeToString()).key


@given(data=st.binary(max_size=60))
def test_invalid_bytes_are_refused(data):
    with pytest.raises(GatewayError):
        _ = head(data).key


def test_operation_id_over_64_bytes_is_refused():
    request = base_pb2.ReattachExecuteRequest(session_id=SESSION, operation_id="x" * 65)
    with pytest.raises(GatewayError, match=r"INVALID_HANDLE\.FORMAT"):
        _ = head(request.SerializeToString(), "ReattachExecute").operation_id
