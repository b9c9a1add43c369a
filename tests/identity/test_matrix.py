"""Every RPC with every authentication method and every flaw of a credential.

The gateway runs in front of a recorder and a real Spark server. A refused call must not reach the recorder, and a call
with a valid credential must reach it in the name of the principal only.
"""

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2

from gateway.authentication.credentials import TOKEN_KEYS
from tests.identity.conftest import KINDS
from tests.identity.gateways import GuardedGateway, refusal_of
from tests.identity.methods import Credential
from tests.identity.provider import Flaw
from tests.identity.recorder import Call
from tests.identity.rpcs import BY_NAME, CLAIMED_USER, RPCS, SERVICE, UNKNOWN_FIELD, Rpc, new_session_id

SECRET_KEYS = TOKEN_KEYS | {"proxy-authorization", "cookie"}
DENIAL_SECONDS = 60
MIN_SECRET_CHARACTERS = 40

one_gateway = pytest.mark.parametrize("guarded", KINDS[:1], indirect=True)
"""Runs a test with one gateway, because no method of authentication changes the result."""


def check_denial(guarded: GuardedGateway, credential: Credential, error: grpc.RpcError) -> None:
    """Check that a call failed because of its credential.

    A connection without a valid client certificate can fail before the gateway answers.
    """
    refusal = refusal_of(error)
    if refusal.code is grpc.StatusCode.UNAVAILABLE and guarded.method.is_refused_by_tls(credential):
        return
    assert refusal.code is grpc.StatusCode.UNAUTHENTICATED, refusal
    assert (refusal.condition, refusal.sql_state) == ("LODGE_UNAUTHENTICATED", "28000")
    assert refusal.text.startswith("[LODGE_UNAUTHENTICATED] ")
    assert not credential.token or credential.token not in refusal.text


@pytest.mark.parametrize("flaw", Flaw, ids=lambda flaw: flaw.value)
def test_refused_call_does_not_reach_the_backend(guarded: GuardedGateway, flaw: Flaw) -> None:
    credential = guarded.flawed(flaw)
    for rpc in RPCS:
        requests = rpc.requests(guarded.target_session)
        position = len(guarded.recorder.calls)
        with pytest.raises(grpc.RpcError) as raised:
            guarded.call(rpc, credential, requests, [("x-case", "refused")])
        check_denial(guarded, credential, raised.value)
        assert guarded.recorder.since(position) == [], rpc.name


def test_call_is_refused_before_its_first_message(guarded: GuardedGateway) -> None:
    credential = guarded.flawed(Flaw.MALFORMED)
    for rpc in RPCS:
        with pytest.raises(grpc.RpcError) as raised:
            rpc.call_without_request(guarded.channel(credential), credential.metadata(), DENIAL_SECONDS)
        check_denial(guarded, credential, raised.value)


def check_principal(rpc: Rpc, call: Call, principal: str) -> None:
    """Check that the backend sees the principal, and nothing of the user and the credential that the client sent."""
    for message in call.messages:
        context = rpc.decode(message).user_context
        assert (context.user_id, context.user_name, list(context.extensions)) == (principal, principal, [])
        assert CLAIMED_USER.encode() not in message
    assert {key.lower() for key, _ in call.metadata} & SECRET_KEYS == set()


def test_valid_credential_reaches_the_backend_as_the_principal(guarded: GuardedGateway) -> None:
    credential, session_id = guarded.valid("ada"), guarded.open_session("ada")
    cookies = [("cookie", "secret=1"), ("proxy-authorization", "Basic c2VjcmV0"), ("x-kept", "kept")]
    for rpc in sorted(RPCS, key=lambda rpc: rpc.name == "ReleaseSession"):
        requests = rpc.requests(session_id)
        position = len(guarded.recorder.calls)
        try:
            guarded.call(rpc, credential, requests, cookies)
        except grpc.RpcError as error:  # Spark does not know the operation or the artifact
            assert not refusal_of(error).condition.startswith("LODGE_"), refusal_of(error)
        calls = guarded.recorder.since(position)
        reached = [call for call in calls if call.method == rpc.name]
        assert [len(call.messages) for call in reached] == [len(requests)], calls
        for call in calls:
            check_principal(BY_NAME[call.method], call, guarded.principal("ada"))
            assert not credential.token or credential.token not in str(call.metadata)
        assert reached[0].metadata_by_key["x-kept"] == "kept"
        assert rpc.is_known or all(UNKNOWN_FIELD in message for message in reached[0].messages)


@one_gateway
@pytest.mark.parametrize("rpc", RPCS, ids=lambda rpc: rpc.name)
def test_session_of_another_principal_does_not_exist(guarded: GuardedGateway, rpc: Rpc) -> None:
    session_id = guarded.open_session("ada")
    server_side = server_side_session_id(guarded, session_id)
    position = len(guarded.recorder.calls)

    def attack(session_id: str) -> str:
        try:
            guarded.call(rpc, guarded.valid("mallory"), rpc.requests(session_id, user=guarded.principal("ada")))
        except grpc.RpcError as error:
            return refusal_of(error).condition
        return "succeeded"

    outcome = attack(session_id)
    for call in guarded.recorder.since(position):
        check_principal(BY_NAME[call.method], call, guarded.principal("mallory"))
    assert outcome == attack(new_session_id())
    assert outcome == "succeeded" or not outcome.startswith("LODGE_")
    assert server_side_session_id(guarded, session_id) == server_side


def server_side_session_id(guarded: GuardedGateway, session_id: str) -> str:
    """Return the backend's id of a session of the principal ``ada``. It changes if the session is opened again."""
    config = BY_NAME["Config"]
    answer = guarded.call(config, guarded.valid("ada"), config.requests(session_id))[0]
    return str(base_pb2.ConfigResponse.FromString(answer).server_side_session_id)


@one_gateway
@pytest.mark.parametrize("name", ["ReattachExecute", "ReleaseExecute", "Interrupt"])
def test_operation_of_another_principal_does_not_exist(guarded: GuardedGateway, name: str) -> None:
    """The other principal has a session with the same id, and knows the id of the operation."""
    session_id = guarded.open_session("ada")
    execute, rpc = BY_NAME["ExecutePlan"], BY_NAME[name]
    for number, text in enumerate(("create temporary table t as select 1 a", "select 1")):
        operation_id = f"00000000-0000-4000-8000-00000000000{number}"
        request = execute.decode(execute.requests(session_id)[0])
        request.plan.root.Clear()
        request.plan.command.sql_command.input.sql.query = text
        request.operation_id = operation_id
        request.request_options.add().reattach_options.reattachable = True
        assert guarded.call(execute, guarded.valid("ada"), [request.SerializeToString()])

        attack = rpc.decode(rpc.requests(session_id, user=guarded.principal("ada"))[0])
        attack.operation_id = operation_id
        if name == "Interrupt":
            attack.interrupt_type = attack.INTERRUPT_TYPE_OPERATION_ID
        config = BY_NAME["Config"]
        guarded.call(config, guarded.valid("mallory"), config.requests(session_id))
        position = len(guarded.recorder.calls)
        try:
            answers = guarded.call(rpc, guarded.valid("mallory"), [attack.SerializeToString()])
        except grpc.RpcError as error:
            assert refusal_of(error).condition.startswith("INVALID_HANDLE."), refusal_of(error)
        else:
            assert name != "ReattachExecute", answers
            assert operation_id not in str(answers) or name == "ReleaseExecute"
        for call in guarded.recorder.since(position):
            check_principal(BY_NAME[call.method], call, guarded.principal("mallory"))

        reattach = BY_NAME["ReattachExecute"].decode(BY_NAME["ReattachExecute"].requests(session_id)[0])
        reattach.operation_id = operation_id
        assert guarded.call(BY_NAME["ReattachExecute"], guarded.valid("ada"), [reattach.SerializeToString()])


def test_both_metadata_keys_are_accepted(guarded: GuardedGateway) -> None:
    credential, config = guarded.valid("ada"), BY_NAME["Config"]
    for key in sorted(TOKEN_KEYS) if credential.token else ():
        metadata = [(key, f"bearer {credential.token}")]
        assert config.call(guarded.channel(credential), config.requests(guarded.target_session), metadata)


def test_two_different_tokens_are_refused(guarded: GuardedGateway) -> None:
    credential, other, config = guarded.valid("ada"), guarded.valid("mallory"), BY_NAME["Config"]
    if not credential.token:
        return  # the method does not read tokens
    metadata = [*credential.metadata(), *other.metadata("authentication")]
    with pytest.raises(grpc.RpcError) as raised:
        config.call(guarded.channel(credential), config.requests(guarded.target_session), metadata)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_health_check_needs_no_credential(guarded: GuardedGateway) -> None:
    credential = Credential(certificate=guarded.valid("ada").certificate)
    check = guarded.channel(credential).unary_unary("/grpc.health.v1.Health/Check")
    assert check(b"") == b"\x08\x01"
    with pytest.raises(grpc.RpcError) as raised:
        guarded.channel(credential).unary_unary("/another.Service/Method")(b"")
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert SERVICE not in str(guarded.recorder.calls[-1:])


def test_nothing_of_the_refused_calls_arrives_late(guarded: GuardedGateway) -> None:
    guarded.open_session("ada")  # everything that was sent before has arrived
    assert [call for call in guarded.recorder.calls if call.metadata_by_key.get("x-case") == "refused"] == []


def test_logs_contain_no_token(guarded: GuardedGateway) -> None:
    log = guarded.lodge.log() + guarded.audit_log.read_text()
    assert "login_failed" in log
    parts = {part for secret in guarded.secrets for part in secret.split(".") if len(part) > MIN_SECRET_CHARACTERS}
    assert [part[:20] for part in parts if part in log] == []
