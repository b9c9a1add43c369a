"""Releases sessions at their Spark Connect servers when no gateway serves them.

When a session loses its gateway, the session still exists at its backend. The backend keeps the session's cached data,
and perhaps a job that writes to the session location. Spark ends the session only after an hour without a request.

Guarantees:

1. A release takes bounded time. After a backend fails to answer, no call goes to this backend for ``SILENCE_SECONDS``,
   so releasing a thousand sessions of a dead backend takes as long as releasing a few.
2. A release does not raise exceptions. The reaper ends a session even if its backend fails, and later removes files
   that the backend wrote late.
3. With a token for the backends, the reaper calls only the configured backends. Otherwise, anyone who can write a
   session record could obtain the token.

Sources: releasing a session interrupts its operations [spark-connect-server SparkConnectReleaseSessionHandler]; the
message is ``ReleaseSessionRequest`` of ``base.proto`` [spark-connect-proto], encoded as described in
[protobuf-encoding].
"""

import threading
import time
from collections.abc import Callable, Collection

import grpc
import structlog

from gateway.connections.backend_address import BackendAddress
from gateway.connections.backend_credentials import BackendAccess, BackendCredentials
from workspace.records import SessionRecord

CALL_SECONDS = 5.0
SILENCE_SECONDS = 30.0

_METHOD = "/spark.connect.SparkConnectService/ReleaseSession"
_OPTIONS = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
_NO_ANSWER = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
_NO_ACCESS = BackendAccess()

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class BackendSessions:
    """A thread-safe client that releases sessions at their backends.

    Args:
        monotonic: A function that returns the current time of a monotonic clock, in seconds.
        access: How Lodge authenticates to the backends.
        backends: The addresses of the configured backends.

    Raises:
        SourceError: If a file of the credentials cannot be used.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        access: BackendAccess = _NO_ACCESS,
        backends: Collection[str] = (),
    ) -> None:
        self._monotonic = monotonic
        self._credentials = BackendCredentials(access)
        self._backends = frozenset(backends)
        self._lock = threading.Lock()
        self._silent_until_seconds: dict[str, float] = {}

    def release(self, record: SessionRecord) -> None:
        """Release a session at its backend, if the backend answers.

        A failure is logged and not raised.
        """
        fields = {"session": record.session_uuid, "backend": record.backend}
        if self._is_silent(record.backend):
            _log.debug("backend_session_not_released", reason="The backend did not answer a recent call.", **fields)
            return
        try:
            self._call(record)
        except grpc.RpcError as error:
            if error.code() in _NO_ANSWER:
                self._set_silent(record.backend)
            _log.warning("backend_session_not_released", reason=f"{error.code().name}: {error.details()}", **fields)
        except ValueError as error:
            _log.warning("backend_session_not_released", reason=str(error), **fields)
        else:
            _log.debug("backend_session_released", **fields)

    def _call(self, record: SessionRecord) -> None:
        """Call ``ReleaseSession`` of the session's backend once.

        Raises:
            grpc.RpcError: If the call fails.
            ValueError: If the session record does not contain a valid backend address, or the backend may not receive
                the token.
        """
        address = BackendAddress.parse(record.backend)
        with self._lock:
            self._credentials.reload()
        metadata, tls = self._credentials.metadata(str(address)), self._credentials.channel_credentials
        if metadata and str(address) not in self._backends:
            raise ValueError(
                f"The backend [{record.backend}] is not configured, so it may not receive the token. Add it with "
                "--backend or --principal-backend."
            )
        with (
            grpc.secure_channel(address.target, tls(), options=_OPTIONS)
            if address.uses_tls
            else grpc.insecure_channel(address.target, options=_OPTIONS)
        ) as channel:
            channel.unary_unary(_METHOD)(release_request(record), metadata=metadata, timeout=CALL_SECONDS)

    def _is_silent(self, backend: str) -> bool:
        with self._lock:
            return self._monotonic() < self._silent_until_seconds.get(backend, float("-inf"))

    def _set_silent(self, backend: str) -> None:
        with self._lock:
            self._silent_until_seconds[backend] = self._monotonic() + SILENCE_SECONDS


def release_request(record: SessionRecord) -> bytes:
    """Return the encoded ``ReleaseSessionRequest`` for a session.

    This module encodes the message itself, because importing PySpark's message classes also imports pandas. That costs
    a hundred megabytes of memory and several seconds, at a moment when many sessions must end.
    """
    user_context = _field(1, record.principal)
    return _field(1, record.client_session_id) + _field(2, user_context)


def _field(number: int, value: str | bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = []
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
