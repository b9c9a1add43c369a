"""An error that says that a session has ended ends only this session."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from gateway.messages.error_status import condition_of
from tests.gateway.hostile_backend import HostileBackend, SparkRefusal

SECONDS = 60
CLOSED = "INVALID_HANDLE.SESSION_CLOSED"
WITH_CLONES_THAT_END = """
import sys
from gateway.errors import session_closed
from gateway.tables.clones import TableCopies
from lodge.cli import main

async def copy_to_ended_clone(copies, before, parent, clone, *arguments):
    raise session_closed(clone.key.client_session_id)

TableCopies.copy_to_clone = copy_to_ended_clone
sys.exit(main())
"""
USER = base_pb2.UserContext(user_id="ada")


async def refuse(_: bytes) -> AsyncIterator[bytes]:
    raise SparkRefusal(CLOSED)
    yield b""


def configure(stub, session_id):
    """Send a call that the gateway only forwards, and return how it ends, see `end`."""
    request = base_pb2.ConfigRequest(session_id=session_id, user_context=USER)
    request.operation.get_all.SetInParent()
    return end(lambda: stub.Config(request, timeout=SECONDS))


def execute(stub, session_id):
    request = base_pb2.ExecutePlanRequest(session_id=session_id, user_context=USER, operation_id=str(uuid.uuid4()))
    request.plan.root.range.end = 1
    return end(lambda: list(stub.ExecutePlan(request, timeout=SECONDS)))


def analyze(stub, session_id):
    request = base_pb2.AnalyzePlanRequest(session_id=session_id, user_context=USER)
    request.schema.plan.root.range.end = 1
    return end(lambda: stub.AnalyzePlan(request, timeout=SECONDS))


def end(call):
    """Make a call, and return the condition of its error; empty without an error."""
    try:
        call()
    except grpc.RpcError as error:
        return condition_of(error)
    return ""


@pytest.mark.parametrize(("method", "call"), [("ExecutePlan", execute), ("AnalyzePlan", analyze)])
def test_late_error_leaves_the_next_session(start_lodge, method, call):
    """The backend ends a session during a call, which fails in the next session."""
    session_id, has_begun, may_end = str(uuid.uuid4()), threading.Event(), threading.Event()

    async def refuse_late(_: bytes) -> AsyncIterator[bytes]:
        has_begun.set()
        await asyncio.to_thread(may_end.wait, SECONDS)
        raise SparkRefusal(CLOSED)
        yield b""

    with HostileBackend() as backend, ThreadPoolExecutor() as threads:
        gateway = start_lodge(backend=backend.address)
        with grpc.insecure_channel(gateway.target) as channel:
            stub = base_pb2_grpc.SparkConnectServiceStub(channel)
            assert configure(stub, session_id) == ""
            backend.answers = {method: refuse_late}
            late = threads.submit(call, stub, session_id)
            assert has_begun.wait(SECONDS)
            backend.answers["Config"] = refuse
            assert configure(stub, session_id) == CLOSED
            del backend.answers["Config"]
            assert configure(stub, session_id) == ""
            may_end.set()
            assert late.result(SECONDS) == CLOSED
            assert configure(stub, session_id) == ""
    log = gateway.log()
    assert [log.count(f'"event": "{name}"') for name in ("session_started", "session_ended")] == [2, 1]


def test_clone_that_ends_leaves_its_parent(start_lodge):
    """The clone ends while the gateway copies the tables of its parent."""
    session_id, clone_id = str(uuid.uuid4()), str(uuid.uuid4())

    async def clone(_: bytes) -> AsyncIterator[bytes]:
        yield base_pb2.CloneSessionResponse(session_id=session_id, new_session_id=clone_id).SerializeToString()

    with HostileBackend() as backend:
        gateway = start_lodge(backend=backend.address, program=["-c", WITH_CLONES_THAT_END])
        backend.answers = {"CloneSession": clone}
        with grpc.insecure_channel(gateway.target) as channel:
            stub = base_pb2_grpc.SparkConnectServiceStub(channel)
            assert configure(stub, session_id) == ""
            request = base_pb2.CloneSessionRequest(session_id=session_id, user_context=USER)
            assert end(lambda: stub.CloneSession(request, timeout=SECONDS)) == CLOSED
            assert configure(stub, session_id) == ""
    log = [line for line in gateway.log().splitlines() if session_id in line]
    assert not [line for line in log if '"session_ended"' in line]
