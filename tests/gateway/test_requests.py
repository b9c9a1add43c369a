"""A request means the same to the gateway and to Spark's decoder, or the gateway refuses it."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.connect.proto import base_pb2

from gateway.errors import GatewayError
from gateway.messages.identity import Identity
from gateway.messages.requests import MAX_FOLLOWING_BYTES, index_request, read_request
from gateway.messages.statement_request import StatementRequest
from gateway.messages.wire import encode_field
from workspace.identifiers import Principal

SESSION = str(uuid.UUID(int=7))
ANN = Identity(Principal("ann"))
METHODS = {
    method.name: method.input_type._concrete_class
    for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods
}
texts = st.text(max_size=20)


def execution(user="bob", session=SESSION, **fields):
    request = base_pb2.ExecutePlanRequest(session_id=session, **fields)
    request.user_context.user_id = user
    request.user_context.user_name = "a name"
    request.plan.root.sql.query = "select 1"
    return request


@given(user=texts, operation=texts, tags=st.lists(texts, max_size=3), sql=st.text(max_size=300))
def test_request_agrees_with_the_decoder(user, operation, tags, sql):
    request = execution(user, operation_id=operation, client_type="test", tags=tags)
    request.plan.root.sql.query = sql
    data = request.SerializeToString()
    read = read_request(data, "ExecutePlan")
    assert (read.key.client_session_id, read.key.principal) == (SESSION, user)
    assert (read.operation_id, list(read.tags), read.client_type) == (operation, tags, "test")
    assert (read.data, bytes(read.plan), read.user_context) == (
        data,
        request.plan.SerializeToString(),
        request.user_context,
    )
    assert read.read_statement() == StatementRequest.read(request)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("user", ["bob", "ann", "", "b" * 2000, None])
def test_identity_replaces_the_user_context(method, user):
    request = METHODS[method](session_id=SESSION)
    if user is not None:
        request.user_context.user_id = user
        request.user_context.extensions.add().type_url = "claim"
    read = read_request(request.SerializeToString(), method, ANN)
    request.user_context.CopyFrom(base_pb2.UserContext(user_id="ann", user_name="ann"))
    assert read.key.principal == "ann"
    assert read.decode(METHODS[method]) == request
    assert read.user_context == request.user_context


@given(before=st.booleans(), user=texts, other=st.text(max_size=300))
def test_plan_is_found_after_the_user_context_changed(before, user, other):
    context = encode_field(2, base_pb2.UserContext(user_id=user, user_name=other).SerializeToString())
    rest = execution()
    rest.ClearField("user_context")
    data = context + rest.SerializeToString() if before else rest.SerializeToString() + context
    read = read_request(data, "ExecutePlan", ANN)
    assert bytes(read.plan) == rest.plan.SerializeToString()
    assert read.read_statement() == StatementRequest.read(base_pb2.ExecutePlanRequest.FromString(read.data))
    changed = base_pb2.Plan()
    changed.root.sql.query = "select 2"
    replaced = base_pb2.ExecutePlanRequest.FromString(read.with_plan(changed.SerializeToString()).data)
    assert (replaced.plan, replaced.user_context.user_id, replaced.session_id) == (changed, "ann", SESSION)


def test_request_with_the_right_user_context_is_not_copied():
    request = execution("ann")
    request.user_context.user_name = "ann"
    data = request.SerializeToString()
    assert read_request(data, "ExecutePlan", ANN).data is data


def test_request_of_an_unknown_method_gets_the_identity_too():
    data = execution().SerializeToString()
    read = read_request(data, "MethodOfTomorrow", ANN)
    assert base_pb2.ExecutePlanRequest.FromString(read.data).user_context.user_id == "ann"
    assert (read.operation_id, read.plan) == ("", None)


@pytest.mark.parametrize("identity", [None, ANN], ids=["claimed", "authenticated"])
@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (encode_field(1, SESSION.encode()), "field 1 occurs more than once"),
        (encode_field(2, b"\x0a\x03bob"), "field 2 occurs more than once"),
        (encode_field(3, b""), "field 3 occurs more than once"),
        (encode_field(6, b"x"), "field 6 occurs more than once"),
        (b"\x92\x80\x80\x80\x80\x01\x05\x0a\x03bob", "shortest form"),  # field 2 for Java: tag (1 << 35) | 0x12
        (b"\x92\x00\x05\x0a\x03bob", "shortest form"),
        (b"\x12\x85\x00\x0a\x03bob", "shortest form"),
        (b"\x10\x01", "field 2 has the wrong wire type 0"),
        (b"\x19" + bytes(8), "field 3 has the wrong wire type 1"),
        (b"\x13\x14", "unsupported wire type 3"),
        (b"\x02\x00", "field has the number 0"),
        (b"\xfa\x7f\x05x", "ends after its message"),
        (b"\xfa\x7f\xff\xff\xff\xff\x0f", "ends after its message"),
        (b"\xf8\x7f" + b"\xff" * 9 + b"\x02", "too large"),
        (b"\xfd\x7f\x00\x00", "ends after its message"),
        (b"\xfa", "truncated"),
    ],
)
def test_request_with_two_meanings_is_refused(more, problem, identity):
    data = execution(operation_id="1").SerializeToString()
    assert read_request(data, "ExecutePlan", identity)
    with pytest.raises(GatewayError, match=problem):
        read_request(data + more, "ExecutePlan", identity)


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        (b"\x0a\x03ann\x0a\x03bob", "field 1 occurs more than once"),
        (b"\x8a\x80\x80\x80\x80\x01\x03bob", "shortest form"),
        (b"\x08\x01", "field 1 has the wrong wire type 0"),
        (b"\x0a\x03an", "ends after its message"),
        (b"\x0a\x02\xff\xff", "not valid UTF-8"),
        (b"\x3a\x00" * 257, "more than 256 fields"),
    ],
)
def test_user_context_with_two_meanings_is_refused(context, problem):
    data = encode_field(1, SESSION.encode()) + encode_field(2, context)
    with pytest.raises(GatewayError, match=problem):
        read_request(data, "Config")
    assert read_request(data, "Config", ANN).user_context.user_id == "ann"


@pytest.mark.parametrize("method", [*METHODS, "MethodOfTomorrow"])
def test_number_of_fields_is_limited(method):
    data = METHODS.get(method, base_pb2.ConfigRequest)(session_id=SESSION).SerializeToString()
    assert read_request(data + b"\xfa\x7f\x00" * 4000, method)
    with pytest.raises(GatewayError, match="more than 4,096 fields"):
        read_request(data + b"\xfa\x7f\x00" * 10_000_000, method)


@pytest.mark.parametrize("method", METHODS)
def test_size_of_a_request_without_its_plan_is_limited(method):
    request = METHODS[method](session_id=SESSION, client_type="c" * 300_000)
    if method in {"AddArtifacts", "AnalyzePlan", "ArtifactStatus", "Config"}:
        read_request(request.SerializeToString(), method)
    else:
        with pytest.raises(GatewayError, match="262,144 bytes"):
            read_request(request.SerializeToString(), method)


def test_plan_does_not_count_for_the_size_of_the_rest():
    request = execution()
    request.plan.root.sql.query = " " * 300_000
    read_request(request.SerializeToString(), "ExecutePlan")


def test_later_messages_of_a_stream_get_the_identity():
    first = read_request(execution().SerializeToString(), "AddArtifacts", ANN)
    later = base_pb2.AddArtifactsRequest(session_id=SESSION)
    later.user_context.user_id = "bob"
    later.chunk.data = b"abc"
    sent = base_pb2.AddArtifactsRequest.FromString(first.following(later.SerializeToString()))
    assert (sent.user_context.user_id, sent.chunk.data) == ("ann", b"abc")
    later.ClearField("session_id")
    assert (
        base_pb2.AddArtifactsRequest.FromString(first.following(later.SerializeToString())).user_context.user_id
        == "ann"
    )
    later.session_id = str(uuid.UUID(int=8))
    with pytest.raises(GatewayError, match="names another session"):
        first.following(later.SerializeToString())
    with pytest.raises(GatewayError, match="occurs more than once"):
        first.following(later.SerializeToString() * 2)
    later.session_id, later.chunk.data = SESSION, bytes(MAX_FOLLOWING_BYTES)
    with pytest.raises(GatewayError, match="more than 16,777,216 bytes"):
        first.following(later.SerializeToString())


@pytest.mark.parametrize("session_id", ["", "no uuid", "../../etc/passwd", SESSION.replace("-", ""), f"{{{SESSION}}}"])
def test_session_id_must_be_a_uuid(session_id):
    with pytest.raises(GatewayError, match="must be an UUID string"):
        read_request(base_pb2.ConfigRequest(session_id=session_id).SerializeToString(), "Config")


@given(data=st.binary(max_size=60))
def test_invalid_bytes_are_refused(data):
    with pytest.raises(GatewayError):
        read_request(data)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "ReleaseSession"])
def test_client_continues_a_session_whose_id_it_has_observed(method):
    message = METHODS[method](session_id=SESSION)
    assert not read_request(message.SerializeToString(), method).continues_session
    message.client_observed_server_side_session_id = SESSION
    assert read_request(message.SerializeToString(), method).continues_session


@pytest.mark.parametrize("identity", [None, ANN])
def test_long_ids_are_refused(identity):
    request = base_pb2.ReattachExecuteRequest(session_id=SESSION, operation_id="x" * 65)
    with pytest.raises(GatewayError, match=r"INVALID_HANDLE\.FORMAT"):
        read_request(request.SerializeToString(), "ReattachExecute", identity)
    with pytest.raises(GatewayError, match=r"INVALID_HANDLE\.FORMAT"):
        index_request(base_pb2.ConfigRequest(session_id="1" * 1_000_000).SerializeToString()).to_request(identity)
