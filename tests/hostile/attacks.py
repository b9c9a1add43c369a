"""Attacks on a gateway, each in a process of its own: ``python -m tests.hostile.attacks TARGET TOKEN NAME...``.

An attack repeats itself until this process is killed. Errors are expected. The name of each attack is printed after its
first step.
"""

import itertools
import os
import random
import socket
import struct
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NoReturn

import grpc
import zstandard
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from tests.forks import die_with_parent
from tests.hostile import http2
from tests.hostile.http2 import RawConnection

SERVICE = "/spark.connect.SparkConnectService/"
METHODS = [method.name for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods]
_MIB = 1024 * 1024
_PAUSE_SECONDS = 0.2
_RANDOM = random.Random(13)  # noqa: S311 - it only has to be repeatable


class Attacker:
    """What an attack needs.

    Args:
        target: The address ``host:port`` of the gateway.
        token: A valid token. None if the gateway has no authentication method.
        user: The user id in requests.
    """

    def __init__(self, target: str, token: str | None = None, user: str = "mallory") -> None:
        self.target = target
        self.token = token
        self.user = user

    def channel(self) -> grpc.Channel:
        options = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_metadata_size", _MIB),
        ]
        return grpc.insecure_channel(self.target, options=options)

    def metadata(self) -> list[tuple[str, str]]:
        return [] if self.token is None else [("authorization", f"Bearer {self.token}")]

    def connect(self, window: int = 65535) -> RawConnection:
        return RawConnection(self.target, self.token, window).greet()

    def user_context(self, user: str = "") -> base_pb2.UserContext:
        return base_pb2.UserContext(user_id=user or self.user)

    def call(self, channel: grpc.Channel, method: str, request: bytes, seconds: float = 30) -> None:
        """Send a request and read everything that comes back. Errors are expected."""
        with suppress(grpc.RpcError):
            for _ in channel.stream_stream(SERVICE + method)(
                iter([request]), metadata=self.metadata(), timeout=seconds
            ):
                pass

    def plan(self, relation: relations_pb2.Relation, session: str = "") -> base_pb2.ExecutePlanRequest:
        request = base_pb2.ExecutePlanRequest(
            session_id=session or str(uuid.uuid4()), user_context=self.user_context(), operation_id=str(uuid.uuid4())
        )
        request.plan.root.CopyFrom(relation)
        option = request.request_options.add()
        option.reattach_options.reattachable = True
        return request

    def statement(self, text: str, session: str = "", arguments: Mapping[str, str] = {}) -> base_pb2.ExecutePlanRequest:
        relation = relations_pb2.Relation(sql=relations_pb2.SQL(query=text))
        for name, value in arguments.items():
            relation.sql.named_arguments[name].literal.string = value
        return self.plan(relation, session)

    def sql(self, text: str, session: str = "") -> bytes:
        return self.statement(text, session).SerializeToString()


def malformed_http2(attacker: Attacker) -> Iterator[None]:
    """Frames that violate HTTP/2, and frames that only cost the gateway work."""
    broken: list[Callable[[RawConnection], bytes]] = [
        lambda _: _RANDOM.randbytes(4096),
        lambda _: http2.frame(99, 7, b"x" * 1000),
        lambda _: http2.frame(http2.DATA, 1, b"x", length=0xFFFFFF),
        lambda _: http2.frame(http2.HEADERS, 1, b"\xff" * 100, http2.END_HEADERS),
        lambda _: http2.frame(http2.HEADERS, 2, b"", http2.END_HEADERS),
        lambda _: http2.frame(http2.WINDOW_UPDATE, 0, struct.pack(">I", 0x7FFFFFFF)) * 2,
        lambda _: http2.frame(http2.SETTINGS, 0, struct.pack(">HI", 4, 0xFFFFFFFF)),
        lambda _: http2.frame(http2.PUSH_PROMISE, 1, struct.pack(">I", 2)),
        lambda _: http2.settings() * 2000,
        lambda _: http2.frame(http2.PING, 0, b"12345678") * 2000,
        lambda _: http2.frame(http2.PRIORITY, 1, b"\0\0\0\0\0") * 2000,
        lambda _: (
            http2.frame(http2.HEADERS, 1, http2.encode_headers([("a", "b" * 1000)]))
            + http2.frame(http2.CONTINUATION, 1, http2.encode_headers([("a", "b" * 8000)])) * 500
        ),
    ]
    for make in itertools.cycle(broken):
        with suppress(OSError), attacker.connect() as connection:
            connection.socket.sendall(make(connection))
            connection.socket.settimeout(0.5)
            while connection.socket.recv(65536):
                pass
        yield


def rapid_reset(attacker: Attacker) -> Iterator[None]:
    """Requests that are cancelled as soon as they have begun."""
    while True:
        with suppress(OSError), attacker.connect() as connection:
            for _ in range(100):
                stream = connection.open_stream("ExecutePlan")
                connection.socket.sendall(http2.frame(http2.RST_STREAM, stream, struct.pack(">I", 8)))
        yield


def malformed_protobuf(attacker: Attacker) -> Iterator[None]:
    """Bytes that no protobuf message has, for each method and for an unknown one."""
    head = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), user_context=attacker.user_context())
    start = head.SerializeToString()
    bodies = [
        b"",
        b"\xff" * 100,
        _RANDOM.randbytes(10_000),
        start + b"\x22\x00" * (4 * _MIB),
        start + b"\x1a" + b"\xff" * 9 + b"\x01",
        start + bytes([*_varint((1 << 35) | 0x12), 5]) + b"\x0a\x03bob",
        start + b"\x1a\x80\x80\x80\x80\x08",
        start * 1000,
        b"\x0a\xff\xff\xff\xff\x07",
        start + b"\x0b" * 10_000,
    ]
    with attacker.channel() as channel:
        for method in itertools.cycle([*METHODS, "Unknown"]):
            attacker.call(channel, method, _RANDOM.choice(bodies))
            yield


def bombs(attacker: Attacker) -> Iterator[None]:
    """Small compressed requests that expand to hundreds of megabytes."""
    repeated = zstandard.compress(b"\x0a\x00" * (128 * _MIB // 2))
    zeros = zstandard.compress(bytes(256 * _MIB))
    with attacker.channel() as channel:
        for data in itertools.cycle([repeated, zeros]):
            request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()), user_context=attacker.user_context())
            operation = request.plan.compressed_operation
            operation.data = data
            operation.op_type = base_pb2.Plan.CompressedOperation.OP_TYPE_RELATION
            operation.compression_codec = base_pb2.COMPRESSION_CODEC_ZSTD
            attacker.call(channel, "ExecutePlan", request.SerializeToString())
            yield


def deep_plans(attacker: Attacker) -> Iterator[None]:
    """Plans that are nested deeply."""
    with attacker.channel() as channel:
        for depth in itertools.cycle([90, 400, 3000, 20_000]):
            request = attacker.plan(relations_pb2.Relation())
            request.ClearField("plan")
            root = _nested_limits(depth)
            plan = _field(base_pb2.Plan.ROOT_FIELD_NUMBER, root)
            data = request.SerializeToString() + _field(base_pb2.ExecutePlanRequest.PLAN_FIELD_NUMBER, plan)
            attacker.call(channel, "ExecutePlan", data)
            yield


def huge_names(attacker: Attacker) -> Iterator[None]:
    """Ids, names and tags of many megabytes."""
    text = "x" * (4 * _MIB)
    session = str(uuid.uuid4())
    requests = [
        ("Config", base_pb2.ConfigRequest(session_id=session, user_context=attacker.user_context(text))),
        ("Config", base_pb2.ConfigRequest(session_id=text, user_context=attacker.user_context())),
        ("Config", base_pb2.ConfigRequest(session_id=session, client_type=text, user_context=attacker.user_context())),
        ("ExecutePlan", base_pb2.ExecutePlanRequest(session_id=session, operation_id=text)),
        ("ExecutePlan", base_pb2.ExecutePlanRequest(session_id=session, tags=[text])),
        ("Interrupt", base_pb2.InterruptRequest(session_id=session, operation_id=text)),
        ("AddArtifacts", base_pb2.AddArtifactsRequest(session_id=session, client_type=text)),
    ]
    with attacker.channel() as channel:
        for method, request in itertools.cycle(requests):
            attacker.call(channel, method, request.SerializeToString())
            yield


def huge_sql(attacker: Attacker) -> Iterator[None]:
    """Statements of many megabytes that are slow to read."""
    size = 14 * _MIB
    texts = [
        "WITH " + "-- insert\n" * (size // 10),
        "DROP TABLE " + "a." * (size // 2) + "a",
        "CREATE TEMPORARY TABLE t AS SELECT " + "(" * size,
        "SELECT '" + "\\" * size,
        "SELECT /*" * (size // 9),
        "EXECUTE IMMEDIATE '" + "''" * (size // 2) + "'",
        "SELECT * FROM " + ", ".join(["`dfs.tmp`.t"] * 200_000),
    ]
    session = str(uuid.uuid4())
    with attacker.channel() as channel:
        for text in itertools.cycle(texts):
            attacker.call(channel, "ExecutePlan", attacker.sql(text, session))
            yield


def small_texts(attacker: Attacker) -> Iterator[None]:
    """Texts of a few kilobytes that take long to read if their reader is not linear."""
    pattern, path = "*a" * 1000, "/[x" + "\\a" * 500
    statements: list[tuple[str, Mapping[str, str]]] = [
        (f"SHOW TEMPORARY TABLES LIKE '{pattern}b'", {}),
        (f"SELECT * FROM `dfs.tmp`.`{pattern}b`", {}),
        (f"SELECT * FROM `dfs.tmp`.`{path}`", {}),
        (f"SELECT * FROM `dfs.tmp`.`{'{a,b}' * 400}`", {}),
        ("SET a=/" + "${" * 2000, {}),
        (";ADD a b" * 500 + "${" * 500, {}),
        ("SELECT * FROM " + "IDENTIFIER(f(" * 300 + "'a'" + "))" * 300, {}),
        ("SELECT * FROM IDENTIFIER(" + "||".join([":a"] * 500) + ") -- `", {"a": " set x = '/y'" * 200}),
        ("EXECUTE IMMEDIATE " + "||".join([":a"] * 500), {"a": " set x = '/y'" * 200}),
        ("EXECUTE IMMEDIATE " + "'EXECUTE IMMEDIATE ' || " * 200 + "'1'", {}),
        ("CREATE TEMPORARY TABLE t OPTIONS (" + "path '/a', " * 500 + "a 'b') AS SELECT 1", {}),
        ("CREATE TEMPORARY TABLE t AS " + "WITH a AS (" * 300 + "SELECT 1" + ") SELECT 1" * 300, {}),
        ("INSERT INTO t VALUES " + "(" * 4000, {}),
        ("DROP TABLE " + "`a``b`." * 1000 + "t", {}),
    ]
    session = str(uuid.uuid4())
    with attacker.channel() as channel:
        for text, arguments in itertools.cycle(statements):
            request = attacker.statement(text, session, arguments)
            attacker.call(channel, "ExecutePlan", request.SerializeToString(), seconds=2)
            analysis = base_pb2.AnalyzePlanRequest(session_id=session, user_context=attacker.user_context())
            analysis.schema.plan.CopyFrom(request.plan)
            attacker.call(channel, "AnalyzePlan", analysis.SerializeToString(), seconds=2)
            config = base_pb2.ConfigRequest(session_id=session, user_context=attacker.user_context())
            config.operation.set.pairs.add(key="spark.sql.warehouse.dir", value=text)
            config.operation.set.pairs.add(key="spark.hadoop.a", value=path)
            attacker.call(channel, "Config", config.SerializeToString(), seconds=2)
            yield


def session_flood(attacker: Attacker) -> Iterator[None]:
    """New sessions as fast as possible, of one user and of made-up users."""
    with attacker.channel() as channel:
        config = channel.unary_unary(SERVICE + "Config")
        for number in itertools.count():
            user = attacker.user if number % 2 else f"user {number}"
            calls = []
            for _ in range(20):
                request = base_pb2.ConfigRequest(
                    session_id=str(uuid.uuid4()), user_context=base_pb2.UserContext(user_id=user)
                )
                request.operation.get.keys.append("spark.sql.shuffle.partitions")
                data = request.SerializeToString()
                calls.append(config.future(data, metadata=attacker.metadata(), timeout=30))
            for call in calls:
                with suppress(grpc.RpcError):
                    call.result()
            yield


def request_flood(attacker: Attacker) -> Iterator[None]:
    """Requests of one session as fast as possible."""
    session = str(uuid.uuid4())
    request = base_pb2.ConfigRequest(session_id=session, user_context=attacker.user_context())
    request.operation.get.keys.append("spark.sql.shuffle.partitions")
    data = request.SerializeToString()
    with attacker.channel() as channel:
        config = channel.unary_unary(SERVICE + "Config")
        while True:
            calls = [config.future(data, metadata=attacker.metadata(), timeout=30) for _ in range(100)]
            for call in calls:
                with suppress(grpc.RpcError):
                    call.result()
            yield


def unread_streams(attacker: Attacker) -> Iterator[None]:
    """Large results that the client never reads."""
    session = str(uuid.uuid4())
    while True:
        channels = [attacker.channel() for _ in range(8)]
        calls = []
        for channel in channels:
            for _ in range(4):
                request = attacker.sql("select 1", session)
                calls.append(channel.unary_stream(SERVICE + "ExecutePlan")(request, metadata=attacker.metadata()))
        for _ in range(150):
            time.sleep(_PAUSE_SECONDS)
            yield
        for channel in channels:
            channel.close()


def no_window(attacker: Attacker) -> Iterator[None]:
    """Requests on connections whose window does not let the gateway send anything."""
    request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), user_context=attacker.user_context())
    request.operation.get_all.SetInParent()
    data = http2.message(request.SerializeToString())
    connections: list[RawConnection] = []
    while True:
        with suppress(OSError):
            connection = attacker.connect(window=0)
            connections.append(connection)
            for _ in range(50):
                connection.send(connection.open_stream("Config"), data, ends=True)
        if len(connections) > 20:
            connections.pop(0).socket.close()
        yield


def slow_requests(attacker: Attacker) -> Iterator[None]:
    """Uploads that announce 100 MiB, send most of it, and then stop."""
    connections: list[RawConnection] = []
    while True:
        with suppress(OSError):
            connection = attacker.connect()
            connections.append(connection)
            stream = connection.open_stream("AddArtifacts")
            connection.send_within_window(stream, http2.message(bytes(90 * _MIB), length=100 * _MIB), seconds=5)
        if len(connections) > 30:
            connections.pop(0).socket.close()
        yield


def idle_connections(attacker: Attacker) -> Iterator[None]:
    """Connections that are opened and left, some of them with open requests."""
    connections: list[RawConnection] = []
    for number in itertools.count():
        with suppress(OSError):
            connection = RawConnection(attacker.target, attacker.token)
            connections.append(connection)
            if number % 3:
                connection.greet()
            if number % 3 == 2:
                for _ in range(20):
                    connection.open_stream("ExecutePlan")
        if len(connections) > 400:
            connections.pop(0).socket.close()
        yield


def failed_logins(attacker: Attacker) -> Iterator[None]:
    """Requests with wrong tokens."""
    request = base_pb2.ConfigRequest(session_id=str(uuid.uuid4()), user_context=attacker.user_context())
    data = request.SerializeToString()
    with attacker.channel() as channel:
        config = channel.unary_unary(SERVICE + "Config")
        while True:
            tokens = ["eyJhbGciOiJub25lIn0.e30.", "x" * 8000, _RANDOM.randbytes(32).hex(), "", "a b"]
            for _ in range(10):
                token = _RANDOM.choice(tokens)
                calls = [
                    config.future(data, metadata=[("authorization", f"Bearer {token}")], timeout=30) for _ in range(5)
                ]
                for call in calls:
                    with suppress(grpc.RpcError):
                        call.result()
            yield


def half_open(attacker: Attacker) -> Iterator[None]:
    """Connections that are closed in the middle of a request, without a word."""
    while True:
        with suppress(OSError), attacker.connect() as connection:
            for method in METHODS:
                stream = connection.open_stream(method)
                connection.send(stream, http2.message(b"\x0a\x24" + str(uuid.uuid4()).encode(), length=1000))
            linger = struct.pack("ii", 1, 0)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        yield


ATTACKS: Mapping[str, Callable[[Attacker], Iterator[None]]] = {
    attack.__name__: attack
    for attack in (
        malformed_http2,
        rapid_reset,
        malformed_protobuf,
        bombs,
        deep_plans,
        huge_names,
        huge_sql,
        small_texts,
        session_flood,
        request_flood,
        unread_streams,
        no_window,
        slow_requests,
        idle_connections,
        failed_logins,
        half_open,
    )
}


def _nested_limits(depth: int) -> bytes:
    """Return an encoded relation with nested limits."""
    relation = relations_pb2.Relation(sql=relations_pb2.SQL(query="select 1")).SerializeToString()
    for _ in range(depth):
        limit = _field(relations_pb2.Limit.INPUT_FIELD_NUMBER, relation)
        relation = _field(relations_pb2.Relation.LIMIT_FIELD_NUMBER, limit)
    return relation


def _field(number: int, value: bytes) -> bytes:
    return bytes([*_varint(number << 3 | 2), *_varint(len(value))]) + value


def _varint(number: int) -> Iterator[int]:
    while number > 0x7F:
        yield number & 0x7F | 0x80
        number >>= 7
    yield number


def _repeat(name: str, attacker: Attacker) -> NoReturn:
    """Attack until the parent of this process ends."""
    die_with_parent()
    has_begun = False
    while True:
        with suppress(OSError, grpc.RpcError):
            for _ in ATTACKS[name](attacker):
                if not has_begun:
                    print(name, flush=True)
                    has_begun = True
                time.sleep(_PAUSE_SECONDS)
        time.sleep(_PAUSE_SECONDS)


def main() -> None:
    target, token, *names = sys.argv[1:]
    os.nice(19)
    for name in names:
        if os.fork() == 0:  # the imports take longer than many attacks
            _repeat(name, Attacker(target, token))
    os.wait()


if __name__ == "__main__":
    main()
