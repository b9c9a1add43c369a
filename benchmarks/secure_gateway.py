"""The cost of authentication and TLS, and what hostile clients cost the others.

- *TLS and JWT*: the latency of a small statement through a gateway with TLS and JSON Web Tokens, compared with a
  gateway without them in the same run. Both run without an audit log. Everything shares this machine, so the latency
  includes the processor time for TLS and tokens in the clients. The benchmark prints the processor time of the gateway
  and of the clients. Two kinds of clients show how much depends on the client.
- *Neighbours*: the latency of a small statement beside clients that never read their results, and beside a client that
  sends 100 MB, compared with the same statement without neighbours. The same neighbours at Spark without Lodge show how
  much of the difference is due to Spark and to the shared machine.

    python -m benchmarks.secure_gateway [--rounds N] [--seconds S]
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event
from pathlib import Path

import grpc
import yaml
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc
from pyspark.sql.connect.session import SparkSession

from benchmarks.pass_through import (
    CLIENTS,
    Gateway,
    connect,
    percentile,
    run_all,
    run_gateway,
    run_in_turn,
    run_statements,
)
from lodge.embedded_spark import embedded_spark
from lodge.logs import set_up_logs
from tests.identity.certificates import CertificateAuthority
from tests.identity.provider import IdentityProvider

STALLED_READERS = 8
STALLED_ROWS = 2_000_000
HUGE_BYTES = 100 * 1024 * 1024
CALL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Route:
    """A way to Spark.

    Attributes:
        name: The name in the output.
        address: ``sc://host:port``.
        token: The token of its clients. None for a route without TLS.
        authority: The PEM file with the authority of the certificate.
        gateway: The gateway. None for a direct connection.
    """

    name: str
    address: str
    gateway: Gateway | None = None
    token: str | None = None
    authority: Path | None = None

    def connect(self) -> SparkSession:
        return connect(f"{self.address}/;use_ssl=true;token={self.token}" if self.token else self.address)

    def cpu_seconds(self) -> float:
        return 0.0 if self.gateway is None else self.gateway.cpu_seconds()

    def stub(self) -> base_pb2_grpc.SparkConnectServiceStub:
        """Return a client without PySpark, on a connection of its own."""
        target = self.address.removeprefix("sc://")
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        if self.authority is None:
            return base_pb2_grpc.SparkConnectServiceStub(grpc.insecure_channel(target, options))
        credentials = grpc.ssl_channel_credentials(self.authority.read_bytes())
        return base_pb2_grpc.SparkConnectServiceStub(grpc.secure_channel(target, credentials, options))

    @property
    def metadata(self) -> Sequence[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")] if self.token else []


@contextlib.contextmanager
def run_secure_gateway(backend: str, directory: Path) -> Iterator[Route]:
    """Run a gateway with TLS and JWT."""
    authority = CertificateAuthority(directory)
    provider = IdentityProvider(directory)
    files = authority.server()
    os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(authority.certificate)  # read at the first connection
    method = {"kind": "jwt", "jwks": provider.jwks_file.as_uri(), "issuer": provider.issuer, "audience": "lodge"}
    config = directory / "lodge.yaml"
    tls = {"certificate": str(files.certificate), "key": str(files.key)}
    config.write_text(yaml.safe_dump({"authentication": [method], "tls": tls, "audit_log": "none"}))
    (directory / "workspaces").mkdir()
    with run_gateway(backend, directory / "workspaces", "--config", str(config)) as gateway:
        address = gateway.address.partition("/;")[0]
        yield Route("TLS and JWT", address, gateway, provider.token("ada"), authority.certificate)


Client = Callable[[], object]
"""A client, as a function that executes a small statement."""


@contextlib.contextmanager
def pyspark_client(route: Route) -> Iterator[Client]:
    """Run a PySpark session. PySpark encrypts, and calls a Python function for the token of each call."""
    session = route.connect()
    yield lambda: session.sql("select 1").collect()
    session.stop()


@contextlib.contextmanager
def grpc_client(route: Route) -> Iterator[Client]:
    """Run a client with the two calls of a statement alone, and with the token as plain metadata, like Go clients."""
    stub = route.stub()
    request = _request()
    request.request_options.add().reattach_options.reattachable = True
    release = base_pb2.ReleaseExecuteRequest(session_id=request.session_id, user_context=request.user_context)
    release.release_all.SetInParent()

    def execute() -> None:
        request.operation_id = release.operation_id = str(uuid.uuid4())
        list(stub.ExecutePlan(request, metadata=route.metadata, timeout=CALL_SECONDS))
        stub.ReleaseExecute(release, metadata=route.metadata, timeout=CALL_SECONDS)

    yield execute
    session = base_pb2.ReleaseSessionRequest(session_id=request.session_id, user_context=request.user_context)
    stub.ReleaseSession(session, metadata=route.metadata, timeout=CALL_SECONDS)


KINDS: Mapping[str, Callable[[Route], contextlib.AbstractContextManager[Client]]] = {
    "PySpark": pyspark_client,
    "gRPC": grpc_client,
}


def bench_select_1(plain: Route, secure: Route, kind: str, clients: int, *, rounds: int, seconds: float) -> None:
    """Compare the latency of a small statement with and without TLS and JWT."""
    routes = {route.name: route for route in (plain, secure)}
    latencies: dict[str, list[float]] = {name: [] for name in routes}
    medians: dict[str, list[float]] = {name: [] for name in routes}
    gateway_seconds = dict.fromkeys(routes, 0.0)
    client_seconds = dict.fromkeys(routes, 0.0)
    with contextlib.ExitStack() as stack:
        running = {
            name: [stack.enter_context(KINDS[kind](route)) for _ in range(clients)] for name, route in routes.items()
        }
        for each in running.values():
            run_all(each, seconds)  # warm up

        def measure(name: str) -> None:
            started, client_started = routes[name].cpu_seconds(), time.process_time()
            found = run_all(running[name], seconds)
            gateway_seconds[name] += routes[name].cpu_seconds() - started
            client_seconds[name] += time.process_time() - client_started
            latencies[name] += found
            medians[name].append(statistics.median(found))

        for number in range(rounds):
            run_in_turn(number, routes, measure)
    ratio = statistics.median(b / a for a, b in zip(medians[plain.name], medians[secure.name], strict=True))
    p50 = [percentile(latencies[name], 0.5) * 1e3 for name in routes]
    p99 = [percentile(latencies[name], 0.99) for name in routes]
    gateway_cpu = [gateway_seconds[name] / len(latencies[name]) * 1e3 for name in routes]
    client_cpu = [client_seconds[name] / len(latencies[name]) * 1e3 for name in routes]
    print(
        f"{clients:3} {kind:8} clients  {p50[0]:7.1f} ms   {p50[1]:7.1f} ms   {ratio:5.2f}"
        f"   {p99[1] / p99[0]:9.2f}"
        f"   {gateway_cpu[0]:6.2f} / {gateway_cpu[1]:5.2f} ms   {client_cpu[0]:6.2f} / {client_cpu[1]:5.2f} ms",
        flush=True,
    )


def _request(query: str = "select 1") -> base_pb2.ExecutePlanRequest:
    request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()))
    request.user_context.user_id = "ada"
    request.plan.root.sql.query = query
    return request


@contextlib.contextmanager
def stalled_readers(route: Route) -> Iterator[None]:
    """Run clients that request large results, read one message, and then nothing."""
    request = _request(f"select id, id * 2 b, cast(id as double) c from range({STALLED_ROWS})")
    calls = []
    for _ in range(STALLED_READERS):
        request.session_id = str(uuid.uuid4())
        calls.append(route.stub().ExecutePlan(request, metadata=route.metadata, timeout=CALL_SECONDS))

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(next, calls))
    try:
        yield
    finally:
        for call in calls:
            call.cancel()


def _send_huge_requests(route: Route, is_first_sent: Event) -> None:
    request = _request()
    request.plan.root.local_relation.data = bytes(HUGE_BYTES)
    stub = route.stub()
    while True:
        with contextlib.suppress(grpc.RpcError):  # Spark refuses the content
            list(stub.ExecutePlan(request, metadata=route.metadata, timeout=CALL_SECONDS))
        is_first_sent.set()


@contextlib.contextmanager
def huge_sender(route: Route) -> Iterator[None]:
    """Run a client that sends requests of 100 MB, one after the other, in a process of its own."""
    processes = multiprocessing.get_context("spawn")
    is_first_sent = processes.Event()
    sender = processes.Process(target=_send_huge_requests, args=(replace(route, gateway=None), is_first_sent))
    sender.start()
    try:
        if not is_first_sent.wait(CALL_SECONDS):
            raise TimeoutError("The client has not sent a request.")
        yield
    finally:
        sender.kill()
        sender.join()


NEIGHBOURS: Mapping[str, Callable[[Route], contextlib.AbstractContextManager[None]]] = {
    f"{STALLED_READERS} clients that do not read": stalled_readers,
    "a client that sends 100 MB": huge_sender,
}


def bench_neighbour(name: str, routes: Sequence[Route], rounds: int, seconds: float) -> None:
    """Compare the latency of a small statement beside a neighbour with the latency without a neighbour."""
    ratios: dict[str, list[float]] = {route.name: [] for route in routes}
    medians: dict[str, list[tuple[float, float]]] = {route.name: [] for route in routes}
    by_name = {route.name: route for route in routes}

    def measure(route_name: str) -> None:
        route = by_name[route_name]
        session = route.connect()
        run_statements([session], 1.0)
        quiet = statistics.median(run_statements([session], seconds))
        with NEIGHBOURS[name](route):
            beside = statistics.median(run_statements([session], seconds))
        medians[route_name].append((quiet, beside))
        ratios[route_name].append(beside / quiet)
        session.stop()

    for number in range(rounds):
        run_in_turn(number, by_name, measure)
    for route in routes:
        quiet, beside = (statistics.median(each) * 1e3 for each in zip(*medians[route.name], strict=True))
        ratio = statistics.median(ratios[route.name])
        print(f"{name:28} {route.name:12} {quiet:7.1f} ms  {beside:7.1f} ms   {ratio:5.2f}", flush=True)


def main() -> None:
    """Run all benchmarks of a gateway with authentication."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="rounds of each measurement")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of each measurement")
    arguments = parser.parse_args()
    set_up_logs("warning")
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        spark = stack.enter_context(embedded_spark("5g"))
        (directory / "plain").mkdir()
        gateway = stack.enter_context(run_gateway(spark.address, directory / "plain"))
        plain = Route("Lodge", gateway.address, gateway)
        secure = stack.enter_context(run_secure_gateway(spark.address, directory))
        print(f"\nselect 1{'p50 Lodge':>24}   TLS and JWT   ratio   p99 ratio   CPU per statement: gateway   clients")
        for kind in KINDS:
            for clients in CLIENTS:
                bench_select_1(plain, secure, kind, clients, rounds=arguments.rounds, seconds=arguments.seconds)
        print("\nselect 1 beside              through      p50 alone  p50 beside   ratio")
        for name in NEIGHBOURS:
            routes = [Route("direct", spark.address), secure]
            bench_neighbour(name, routes, min(arguments.rounds, 3), arguments.seconds)


if __name__ == "__main__":
    main()
