"""Clients that send requests while their gateway stops."""

import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tests.conftest import LodgeProcess

pytestmark = pytest.mark.slow

CLIENTS = 12
PAUSE_SECONDS = 0.05  # the shortest time after which PySpark repeats a request
STOP_SECONDS = 60


class BusyClient:
    """A client that sends one request after the other, with a pause after an error.

    Attributes:
        codes: The number of requests by status code.
    """

    def __init__(self, address: str) -> None:
        self.codes: Counter[grpc.StatusCode] = Counter()
        self._channel = grpc.insecure_channel(address.removeprefix("sc://"), options=[("grpc.enable_retries", 0)])
        self._stub = base_pb2_grpc.SparkConnectServiceStub(self._channel)
        self._request = base_pb2.ConfigRequest(
            session_id=str(uuid.uuid4()),
            operation=base_pb2.ConfigRequest.Operation(
                get_option=base_pb2.ConfigRequest.GetOption(keys=["spark.sql.shuffle.partitions"])
            ),
        )

    def send(self) -> bool:
        """Send a request, and return whether it succeeded."""
        try:
            self._stub.Config(self._request, timeout=STOP_SECONDS)
        except grpc.RpcError as error:
            self.codes[error.code()] += 1
            return False
        self.codes[grpc.StatusCode.OK] += 1
        return True

    def send_until(self, has_ended: threading.Event) -> None:
        while not has_ended.wait(0.0 if self.send() else PAUSE_SECONDS):
            pass

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CLIENTS) as executor:
        yield executor


def test_clients_see_only_errors_after_which_they_repeat_a_request(
    start_lodge: Callable[..., LodgeProcess], spark_server: str, executor: ThreadPoolExecutor
) -> None:
    gateway = start_lodge(backend=spark_server)
    clients = [BusyClient(gateway.address) for _ in range(CLIENTS)]
    for client in clients:
        assert client.send()
    has_ended = threading.Event()
    sending = [executor.submit(client.send_until, has_ended) for client in clients]
    gateway.signal(signal.SIGTERM)
    assert gateway.process.wait(STOP_SECONDS) == 0
    has_ended.set()
    for each in sending:
        each.result()
    codes = sum((client.codes for client in clients), Counter[grpc.StatusCode]())
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    for client in clients:
        client.close()
