"""Ending sessions at their backends, for those whom no gateway does that any more.

Why it exists: a session that lost its gateway lives on at its Spark Connect server, with its cached data and perhaps
with a job that still writes into the session location. Spark ends it only after an hour without a request.

Guarantees:

1. It takes bounded time, whatever the backend does; and a backend that did not answer is not asked again for a while,
   so that a thousand sessions of a dead one cost the time of a few.
2. It raises nothing: a session that cannot be ended at its backend must be ended all the same, and what is still
   written is swept later.

Sources: Spark: SparkConnectReleaseSessionHandler (ending a session interrupts what runs in it), and
``spark/connect/base.proto``; Protocol Buffers, "Encoding".
"""

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import grpc
import structlog

from workspace.records import SessionRecord

CALL_SECONDS = 5.0
SILENCE_SECONDS = 30.0

_METHOD = "/spark.connect.SparkConnectService/ReleaseSession"
_OPTIONS = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
_NO_ANSWER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class BackendSessions:
    """Safe to share between threads; see the module's guarantees.

    Args:
        monotonic: A clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._silent_until_seconds: dict[str, float] = {}

    def release(self, record: SessionRecord) -> None:
        """Ends a session at its backend, if that answers."""
        fields = {"session": record.session_uuid, "backend": record.backend}
        if self._is_silent(record.backend):
            _log.debug("backend_session_not_released", reason="the backend did not answer lately", **fields)
            return
        try:
            _release(record)
        except grpc.RpcError as error:
            if error.code() in _NO_ANSWER:
                self._set_silent(record.backend)
            _log.warning("backend_session_not_released", reason=f"{error.code().name}: {error.details()}", **fields)
        except ValueError as error:
            _log.warning("backend_session_not_released", reason=str(error), **fields)
        else:
            _log.debug("backend_session_released", **fields)

    def _is_silent(self, backend: str) -> bool:
        with self._lock:
            return self._monotonic() < self._silent_until_seconds.get(backend, float("-inf"))

    def _set_silent(self, backend: str) -> None:
        with self._lock:
            self._silent_until_seconds[backend] = self._monotonic() + SILENCE_SECONDS


def _release(record: SessionRecord) -> None:
    """Raises: grpc.RpcError; ValueError if the record's backend is no address."""
    parts = urlsplit(record.backend)
    if parts.scheme != "sc" or not parts.hostname or parts.port is None:
        raise ValueError(f"[{record.backend}] is not of the form sc://HOST:PORT")
    with grpc.insecure_channel(parts.netloc, options=_OPTIONS) as channel:
        channel.unary_unary(_METHOD)(release_request(record), timeout=CALL_SECONDS)


def release_request(record: SessionRecord) -> bytes:
    """A ``ReleaseSessionRequest`` as it goes over the wire.

    Written by hand: PySpark's own classes bring pandas with them, a hundred megabytes and seconds of loading at the
    moment when many sessions are to be ended.
    """
    user_context = _field(1, record.principal)
    return _field(1, record.client_session_id) + _field(2, user_context)


def _field(number: int, value: str | bytes) -> bytes:
    """A field of variable length, as protocol buffers encode it."""
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
