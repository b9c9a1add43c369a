"""A gateway whose event loop is really blocked, beside a reaper that would end its sessions."""

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import structlog
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.cluster.processes import DIES_WITH_PARENT
from tests.reaper.passes import SingleThreadReaper
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords

pytestmark = pytest.mark.slow

LEASE_SECONDS = 6.0
GRACE_SECONDS = 0.5
LIMIT_SECONDS = 2 * LEASE_SECONDS
GATEWAY = """
import asyncio, pathlib, sys, threading
import structlog
from gateway.config import GatewayConfig
from gateway.server import Gateway
from workspace.files.leases import FileLeases
from workspace.files.session_locations import FileSessionLocations
from workspace.files.session_records import FileSessionRecords
from workspace.workspaces import Workspace, Workspaces

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
root, lease_seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
temporary = Workspace("dfs.tmp", root, is_writable=True)
config = GatewayConfig(
    listen="127.0.0.1:0",
    backends=("sc://127.0.0.1:1",),
    workspaces=Workspaces({temporary.name: temporary}, temporary),
    session_idle_timeout_seconds=600.0,
    lease_duration_seconds=lease_seconds,
)

async def serve():
    loop = asyncio.get_running_loop()
    gateway = Gateway(config, FileSessionRecords(root), FileLeases(root), FileSessionLocations(root))
    print((await gateway.start()).main, flush=True)

    end = threading.Event()

    def obey():
        for line in sys.stdin:
            if line.strip() == "block":
                end.clear()
                loop.call_soon_threadsafe(end.wait)
            else:
                end.set()

    threading.Thread(target=obey, daemon=True).start()
    await asyncio.Event().wait()

asyncio.run(serve())
"""
WaitUntil = Callable[..., None]


class StalledGateway:
    """A gateway in a process of its own, with one session. The backend of the session does not exist."""

    def __init__(self, root: Path) -> None:
        self.records = FileSessionRecords(root)
        self._log = root.with_suffix(".log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*DIES_WITH_PARENT, sys.executable, "-c", GATEWAY, str(root), str(LEASE_SECONDS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        self._channel = grpc.insecure_channel(self._process.stdout.readline().strip())
        self._session_id = str(uuid.uuid4())

    def use_session(self) -> str:
        """Send a request in the session, and return the error, because the backend cannot be reached."""
        stub = base_pb2_grpc.SparkConnectServiceStub(self._channel)
        request = base_pb2.ConfigRequest(session_id=self._session_id)
        request.user_context.user_id = "ada"
        request.operation.get.keys.append("spark.app.name")
        with pytest.raises(grpc.RpcError) as raised:
            stub.Config(request, timeout=60)
        return str(raised.value.details())

    def block(self) -> None:
        """Block the event loop until :meth:`unblock`."""
        self._send("block")

    def unblock(self) -> None:
        self._send("unblock")

    def _send(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def log(self) -> str:
        return self._log.read_text()

    def close(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[StalledGateway]:
    root = tmp_path / "tmp"
    root.mkdir()
    FileSessionLocations(root).initialise()
    reaper = SingleThreadReaper(
        records=FileSessionRecords(root),
        leases=FileLeases(root),
        locations=FileSessionLocations(root),
        lease_duration_seconds=LEASE_SECONDS,
        grace_period_seconds=GRACE_SECONDS,
        monotonic=time.monotonic,
        log=structlog.get_logger(),
    )
    end = threading.Event()

    def reap() -> None:
        while not end.wait(0.1):
            reaper.run_once()

    reaping = threading.Thread(target=reap)
    gateway = StalledGateway(root)
    reaping.start()
    try:
        yield gateway
    finally:
        end.set()
        reaping.join()
        gateway.close()


def test_gateway_that_stalls_longer_than_its_lease_keeps_its_sessions(
    gateway: StalledGateway, wait_until: WaitUntil
) -> None:
    gateway.use_session()
    [before] = gateway.records.list()
    begun = time.monotonic()
    gateway.block()
    wait_until(lambda: "event_loop_stalled" in gateway.log(), "the stall is noticed")
    wait_until(lambda: time.monotonic() - begun > 1.5 * LEASE_SECONDS, "the stall is longer than the lease")
    gateway.unblock()
    assert "unavailable" in gateway.use_session(), "the gateway answers after the stall"
    wait_until(lambda: "event_loop_recovered" in gateway.log(), "the end of the stall is noticed")
    assert gateway.records.list() == [before], "nobody changed the session"
    assert "lease_renewal_stopped" not in gateway.log()


def test_gateway_that_stalls_longer_than_the_limit_loses_its_sessions(
    gateway: StalledGateway, wait_until: WaitUntil
) -> None:
    gateway.use_session()
    assert len(gateway.records.list()) == 1
    begun = time.monotonic()
    gateway.block()
    wait_until(lambda: not gateway.records.list(), "the reaper ends the session during the stall")
    assert time.monotonic() - begun > LIMIT_SECONDS
    gateway.unblock()
    assert "lease_renewal_stopped" in gateway.log()
    wait_until(
        lambda: "session_lost" in gateway.log(), "the gateway joins its sessions again, and finds that one ended"
    )
    wait_until(lambda: "unavailable" in gateway.use_session(), "the lease is valid again, and a new session starts")
    assert len(gateway.records.list()) == 1
