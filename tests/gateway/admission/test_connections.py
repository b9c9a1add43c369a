"""Closing connections of clients."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from gateway.admission.connections import IdleConnections, close_connection, host_of
from tests.conftest import wait_until


@pytest.mark.parametrize(
    ("family", "listen", "connect", "peer"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", "ipv4:127.0.0.1:{}"),
        (socket.AF_INET6, "::1", "::1", "ipv6:%5B::1%5D:{}"),
        (socket.AF_INET6, "::", "127.0.0.1", "ipv4:127.0.0.1:{}"),
    ],
)
def test_only_the_connection_of_the_client_is_closed(
    family: socket.AddressFamily, listen: str, connect: str, peer: str
) -> None:
    with socket.create_server((listen, 0), family=family, dualstack_ipv6=listen == "::") as server:
        port = server.getsockname()[1]
        with socket.create_connection((connect, port)) as stalled, socket.create_connection((connect, port)) as other:
            accepted = [server.accept()[0] for _ in range(2)]
            assert close_connection(peer.format(stalled.getsockname()[1]))
            stalled.settimeout(60)
            other.settimeout(0.1)
            assert stalled.recv(1) == b""
            with pytest.raises(TimeoutError):
                other.recv(1)
            for each in accepted:
                each.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect_to_new_server(stack: ExitStack, clients: int) -> tuple[int, list[socket.socket]]:
    """Return the port of a server, and connections to it that the server has accepted."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = server.getsockname()[1]
    connections = []
    for _ in range(clients):
        connections.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
        stack.enter_context(server.accept()[0])
    return port, connections


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


def test_connections_without_calls_are_closed_at_the_second_pass(stack: ExitStack) -> None:
    port, (idle, busy) = connect_to_new_server(stack, 2)
    other_port, (other,) = connect_to_new_server(stack, 1)
    busy_peers = {f"ipv4:127.0.0.1:{busy.getsockname()[1]}"}
    connections = IdleConnections({port})
    assert connections.close(busy_peers) == 1
    assert not is_closed(idle)
    assert connections.close(busy_peers) == 0
    wait_until(lambda: is_closed(idle), "the connection is closed")
    assert not is_closed(busy)
    assert not is_closed(other)
    assert other_port != port


def test_connections_are_closed_at_once_on_request(stack: ExitStack) -> None:
    port, (idle, busy) = connect_to_new_server(stack, 2)
    busy_peers = {f"ipv4:127.0.0.1:{busy.getsockname()[1]}"}
    assert IdleConnections({port}).close(busy_peers, at_once=True) == 0
    wait_until(lambda: is_closed(idle), "the connection is closed")
    assert not is_closed(busy)


def test_connection_that_was_busy_at_the_last_pass_stays_open_for_one_pass(stack: ExitStack) -> None:
    port, (client,) = connect_to_new_server(stack, 1)
    connections = IdleConnections({port})
    peer = f"ipv4:127.0.0.1:{client.getsockname()[1]}"
    assert [connections.close(busy) for busy in (set(), {peer}, set())] == [1, 0, 1]
    assert not is_closed(client)
    connections.close(set())
    wait_until(lambda: is_closed(client), "the connection is closed")


def test_new_connections_are_refused_on_request(stack: ExitStack) -> None:
    port, (client,) = connect_to_new_server(stack, 1)
    other_port, _ = connect_to_new_server(stack, 0)
    IdleConnections({port}).refuse_new()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert not is_closed(client)
    stack.enter_context(socket.create_connection(("127.0.0.1", other_port)))


@pytest.mark.parametrize("peer", ["ipv4:192.0.2.1:5", "unix:/tmp/socket", "", "ipv4:", "nonsense"])
def test_unknown_client_has_no_connection(peer: str) -> None:
    assert not close_connection(peer)


def test_host_of_an_address() -> None:
    assert host_of("ipv4:192.0.2.1:50000") == "ipv4:192.0.2.1"
    assert host_of("ipv6:%5B2001:db8::1%5D:50000") == host_of("ipv6:[2001:db8:0:0:ffff::2]:7") == "ipv6:2001:db8::/64"
    assert host_of("ipv6:%5B2001:db8:0:1::1%5D:50000") == "ipv6:2001:db8:0:1::/64"
    assert host_of("ipv6:%5Bfe80::1%25eth0%5D:5") == "ipv6:fe80::/64"
    assert host_of("ipv6:%5B::ffff:192.0.2.1%5D:5") == "ipv4:192.0.2.1"
    assert host_of("ipv6:%5Bnonsense%5D:5") == "ipv6:%5Bnonsense%5D"
    assert host_of("unix:") == "unix"
