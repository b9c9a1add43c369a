"""Callers are identified before their messages are read, and the backend knows only the identity."""

import asyncio
import uuid

import grpc
import pytest
from grpc import aio
from pyspark.sql.connect.proto import base_pb2

from gateway.admission.admission import Admission
from gateway.admission.limits import AdmissionLimits
from gateway.auditing.audit import Audit
from gateway.auditing.statement_audit import StatementAudit
from gateway.backends.backends import SERVICE, Backend
from gateway.backends.forwarding import RequestStream, call_arguments, forward_stream, forward_upload
from gateway.blocking_work.current_work import CurrentWork
from gateway.blocking_work.request_pools import RequestPools
from gateway.calls.service import SparkConnectService
from gateway.errors import GatewayError, unauthenticated
from gateway.messages.error_status import error_info
from gateway.messages.identity import Identity
from gateway.messages.requests import read_request
from gateway.operations.drain import Drain
from workspace.identifiers import Principal

METHODS = [method.name for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods]
SESSION = str(uuid.uuid4())
MESSAGE_BYTES = 64 * 1024


class Authenticator:
    """Refuses all callers of the address ``target``, as soon as the test allows it."""

    def __init__(self):
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.target = ""

    async def identify(self, context, limit_login):
        self.asked.set()
        await self.may_answer.wait()
        raise unauthenticated("the token has expired")


@pytest.fixture
async def door():
    """Return a service without sessions and its channel. Its authenticator refuses all callers."""
    authenticator = Authenticator()
    service = SparkConnectService(
        authenticator=authenticator,
        admission=Admission(AdmissionLimits(failed_logins_per_minute=10_000)),
        sessions=None,
        operations=None,
        services=None,
        planner=None,
        workspaces=None,
        paths=None,
        audited=StatementAudit(Audit(), detached_timeout_seconds=1, log_query_text=False),
        pools=RequestPools(),
        plannings=None,
        drain=Drain(),
        work=CurrentWork(),
        log_query_text=False,
    )
    server = aio.server()
    server.add_generic_rpc_handlers((service,))
    authenticator.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with aio.insecure_channel(authenticator.target) as channel:
        yield authenticator, channel
    await server.stop(0)


async def test_denied_jvm_client_gets_the_text_of_the_error(door):
    """The client type is in the request, which the gateway has not read. The user agent takes its place."""
    authenticator, channel = door
    authenticator.may_answer.set()
    options = [("grpc.primary_user_agent", "grpc-java-netty/1.76.0")]
    async with aio.insecure_channel(authenticator.target, options) as java:
        for each, expected in ((java, "SparkException"), (channel, "AnalysisException")):
            with pytest.raises(aio.AioRpcError) as raised:
                await each.unary_unary(SERVICE + "Config")(b"no request")
            assert error_info(raised.value.trailing_metadata()).reason.rpartition(".")[2] == expected


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
@pytest.mark.parametrize("method", [*METHODS, "MethodOfTomorrow"])
async def test_denial_has_the_right_form_for_every_method(door, method, kind):
    authenticator, _ = door
    authenticator.may_answer.set()

    def denied():  # not in asyncio, whose client fails if it sends a message of a call that has ended
        with grpc.insecure_channel(authenticator.target) as channel:
            request = iter([b"no request"]) if kind.startswith("stream") else b"no request"
            answer = getattr(channel, kind)(SERVICE + method)(request)
            return answer if kind.endswith("unary") else next(answer)

    with pytest.raises(grpc.RpcError) as raised:
        await asyncio.to_thread(denied)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert error_info(raised.value.trailing_metadata()).metadata["errorClass"] == "LODGE_UNAUTHENTICATED"


@pytest.mark.parametrize("method", ["AddArtifacts", "ExecutePlan", "MethodOfTomorrow"])
async def test_messages_are_not_read_before_the_caller_is_identified(door, method):
    authenticator, channel = door
    sent = 0

    async def send():
        nonlocal sent
        for _ in range(1000):
            yield bytes(MESSAGE_BYTES)
            sent += 1

    call = channel.stream_stream(SERVICE + method)(send())
    await authenticator.asked.wait()
    before = -1
    while before < sent:  # until flow control stops the client
        before = sent
        await asyncio.sleep(0.3)
    assert sent * MESSAGE_BYTES < 8 * 1024 * 1024
    authenticator.may_answer.set()
    with pytest.raises(aio.AioRpcError):
        await call.read()


class Recorder(grpc.GenericRpcHandler):
    """A backend that records messages and metadata."""

    def __init__(self):
        self.messages = []
        self.metadata = {}

    def service(self, details):
        if details.method.endswith("/AddArtifacts"):
            return grpc.stream_unary_rpc_method_handler(self.upload)
        return grpc.stream_stream_rpc_method_handler(self.record)

    async def upload(self, requests, context):
        async for _ in self.record(requests, context):
            pass
        return b""

    async def record(self, requests, context):
        self.metadata = dict(context.invocation_metadata())
        async for message in requests:
            self.messages.append(message)
            yield message


class Forwarder(grpc.GenericRpcHandler):
    """A server that forwards client streams to a backend, as the service does for an identified caller."""

    def __init__(self, backend):
        self.backend = backend
        self.errors = []

    def service(self, details):
        name = details.method.removeprefix(SERVICE)

        async def handle(_, context):
            forward = forward_upload if name == "AddArtifacts" else forward_stream
            try:
                async with Admission().admit(context, name, Principal("ann")) as call:
                    first = read_request(await call.read(), name, Identity(Principal("ann"), method="tokens"))
                    return await forward(self.backend, details.method, RequestStream(first, call), call)
            except GatewayError as error:
                self.errors.append(error)
                await context.abort(grpc.StatusCode.INTERNAL, str(error))

        if name == "AddArtifacts":
            return grpc.stream_unary_rpc_method_handler(handle)
        return grpc.stream_stream_rpc_method_handler(handle)


@pytest.fixture
async def forwarding():
    """Return a recording backend, a server that forwards to it, and a channel to this server."""
    recorder = Recorder()
    servers = [aio.server(), aio.server()]
    servers[0].add_generic_rpc_handlers((recorder,))
    port = servers[0].add_insecure_port("127.0.0.1:0")
    await servers[0].start()
    backend = Backend(f"sc://127.0.0.1:{port}")
    forwarder = Forwarder(backend)
    servers[1].add_generic_rpc_handlers((forwarder,))
    port = servers[1].add_insecure_port("127.0.0.1:0")
    await servers[1].start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield recorder, forwarder, channel
    await backend.close()
    for server in servers:
        await server.stop(0)


def upload(session_id=SESSION, user="bob"):
    request = base_pb2.AddArtifactsRequest(session_id=session_id)
    request.user_context.user_id = user
    request.chunk.data = b"abc"
    return request.SerializeToString()


@pytest.mark.parametrize("method", ["AddArtifacts", "MethodOfTomorrow"])
async def test_every_message_of_a_stream_carries_the_identity(forwarding, method):
    recorder, _, channel = forwarding
    requests = [upload(user="bob"), upload(user="eve"), upload(session_id="", user="")]
    metadata = [(key, "secret") for key in ("authorization", "authentication", "proxy-authorization", "cookie")]
    call = channel.stream_stream(SERVICE + method)(iter(requests), metadata=[*metadata, ("x-mine", "m")])
    while await call.read() is not aio.EOF:
        pass
    assert await call.code() is grpc.StatusCode.OK
    users = [base_pb2.AddArtifactsRequest.FromString(message).user_context.user_id for message in recorder.messages]
    assert users == ["ann"] * 3
    assert recorder.metadata["x-mine"] == "m"
    assert "secret" not in recorder.metadata.values()


@pytest.mark.parametrize("method", ["AddArtifacts", "MethodOfTomorrow"])
@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (upload(session_id=str(uuid.uuid4())), "names another session"),
        (upload() + upload(), "occurs more than once"),
        (b"no message", "unsupported wire type"),
    ],
    ids=["other session", "two user contexts", "no message"],
)
async def test_later_message_that_cannot_be_rewritten_ends_the_stream(forwarding, method, later, problem):
    recorder, forwarder, channel = forwarding
    call = channel.stream_stream(SERVICE + method)(iter([upload(), later, upload()]))
    with pytest.raises(aio.AioRpcError):
        while await call.read() is not aio.EOF:
            pass
    assert len(recorder.messages) <= 1
    assert [problem in str(error) for error in forwarder.errors] == [True]


KEYS_WITH_CREDENTIALS = [
    *("authorization", "authentication", "cookie", "proxy-authorization", "forwarded", "x-forwarded-for"),
    *("x-forwarded-user", "x-auth-request-email", "x-api-key", "token", "x-token-bin", "x-amz-security-token"),
    *("x-goog-authenticated-user-email", "cf-access-jwt-assertion", "x-real-ip", "x-remote-user", "session_token"),
]


def test_credentials_are_never_forwarded():
    kept = (("x-mine", "m"), ("token-count", "1"), ("x-request-id", "2"), ("traceparent", "3"))

    class Context:
        def invocation_metadata(self):
            return (*((key, "t") for key in KEYS_WITH_CREDENTIALS), *kept)

        def time_remaining(self):
            return 5.0

    assert call_arguments(Context()) == {"metadata": kept, "timeout": 5.0}
