"""Leader election of reapers with a Kubernetes Lease.

The rules are in :mod:`reaper.kubernetes.candidacy`. The name of the Lease is ``<instance>-reaper``. Operators confirm
a mass expiry by setting the annotation :data:`CONFIRMATION` of the Lease. Events that do not concern a session refer
to the Lease.

Guarantees:

1. Each change contains the resource version that it replaces. Therefore, only one of several candidates can take the
   Lease.
2. A request takes at most a part of the lease duration.
3. A candidate that is not fit releases the Lease and does not try to take it, so that another candidate can lead.
"""

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Any

import structlog
from kubernetes.client import CoordinationV1Api

from reaper.kubernetes.candidacy import Candidacy, LeaseState
from workspace.background_thread import BackgroundThread
from workspace.kubernetes.api_server import CHECK_API_SERVER, ApiServer, ApiStatusError, JsonObject, RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.labels import labels_of
from workspace.record_store import RecordsUnavailableError

COMPONENT = "reaper"
CONFIRMATION = "sparklodge.io/confirm-mass-expiry"

_SHORT_WAIT_SECONDS = 0.2

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def lease_name(instance: str) -> str:
    """Return the name of the reapers' Lease."""
    return f"{instance}-reaper"


class LeaderElection:
    """A candidate in the leader election, which runs in its own thread.

    Args:
        connection: The connection to the API server.
        duration_seconds: The time without a renewal after which a leader loses the Lease.
    """

    def __init__(self, connection: Connection, duration_seconds: float) -> None:
        self._namespace = connection.namespace
        self._instance = connection.instance
        self._candidacy = Candidacy(f"{socket.gethostname()}_{secrets.token_hex(4)}", duration_seconds)
        request_seconds = self._candidacy.retry_seconds
        retry_policy = RetryPolicy(timeout_seconds=(request_seconds, request_seconds), repeat_seconds=0.0)
        self._server = ApiServer(connection, "reapers' lease", "leases", retry_policy)
        self._api = CoordinationV1Api(connection.api_client)
        self._lease: JsonObject | None = None
        self._logged_leading = False
        self._logged_reason: str | None = None
        self._wake = threading.Event()

    @property
    def identity(self) -> str:
        """The unique name of this candidate."""
        return self._candidacy.identity

    @contextmanager
    def running(self, *, is_fit: Callable[[], bool], on_change: Callable[[], None]) -> Iterator[None]:
        """Take part in the leader election for the duration of the block.

        This method can be called only once.

        Args:
            is_fit: A function that returns whether this reaper is able to work.
            on_change: A function that is called when this reaper begins or stops leading. It must return quickly.
        """
        self._thread = BackgroundThread("leader-election", partial(self._run, is_fit, on_change))
        self._thread.start()
        try:
            yield
        finally:
            self._thread.stopping.set()
            self._wake.set()
            self._thread.join()
            self._candidacy.resign()
            self._log_leadership(on_change)

    def hand_over(self) -> None:
        """Release the Lease so that another reaper can lead immediately.

        Call this method after the block, when all work of this reaper has ended.
        """
        if self._is_own():
            self._give_back()

    def check_soon(self) -> None:
        """Read the Lease soon, because its holder may have changed.

        This method can be called from any thread.
        """
        self._wake.set()

    def leads(self) -> bool:
        """Return whether this reaper may act now."""
        return self._candidacy.leads(time.monotonic())

    def check_writable(self) -> None:
        """Check that writes were possible since the last call. The leader writes all the time, and the others see it.

        Raises:
            RecordsUnavailableError: If nobody could write for so long that gateways may look dead.
        """
        if not self._candidacy.take_evidence_of_writes(time.monotonic()):
            raise self._server.unavailable(
                "No reaper could renew its Lease in time, so gateways may not be able to renew theirs", CHECK_API_SERVER
            )

    def annotations(self) -> Mapping[str, str]:
        """Return the annotations of the Lease when it was last read."""
        lease = self._lease
        return {} if lease is None else lease["metadata"].get("annotations") or {}

    def reference(self) -> Mapping[str, str] | None:
        """Return a reference to the Lease for Events, or None if it was never read."""
        lease = self._lease
        if lease is None:
            return None
        metadata = lease["metadata"]
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        }

    def _run(self, is_fit: Callable[[], bool], on_change: Callable[[], None]) -> None:
        while True:
            self._wake.clear()
            if self._thread.stopping.is_set():  # checked after clear(), because a stop sets both
                return
            wait_seconds, begun_seconds = self._candidacy.retry_seconds, time.monotonic()
            try:
                self._step(is_fit)
                self._logged_reason = None
            except RecordsUnavailableError as error:
                self._log_failure(str(error))
            except ApiStatusError as error:
                self._lease = None  # the Lease has changed and must be read again
                if error.status in {HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND}:
                    wait_seconds = min(wait_seconds, _SHORT_WAIT_SECONDS)
                else:
                    self._log_failure(error.message)
            except Exception:  # noqa: BLE001 - a top loop, in which the election must continue
                _log.exception("leader_election_failed")
            self._log_leadership(on_change)
            self._wake.wait(max(0.0, wait_seconds - (time.monotonic() - begun_seconds)))

    def _step(self, is_fit: Callable[[], bool]) -> None:
        if not is_fit():
            if self._is_own():
                self._give_back()
            self._candidacy.resign()
            return
        if self._lease is None or not self._is_own():
            self._lease = self._read()
        if self._lease is None:
            self._take(self._create)
        elif self._candidacy.may_take(time.monotonic()):
            self._take(partial(self._replace, self._lease))

    def _take(self, request: Callable[[], JsonObject]) -> None:
        begun_seconds = time.monotonic()
        self._lease = request()
        self._observe(self._lease)
        self._candidacy.record_renewal(begun_seconds)

    def _read(self) -> JsonObject | None:
        try:
            lease = self._server.request(
                partial(self._api.read_namespaced_lease, lease_name(self._instance), self._namespace)
            )
        except ApiStatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        self._observe(lease)
        return lease

    def _create(self) -> JsonObject:
        metadata = {"name": lease_name(self._instance), "labels": labels_of(self._instance, COMPONENT)}
        body: Any = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": self._spec({}),
        }
        return self._server.request(partial(self._api.create_namespaced_lease, self._namespace, body))

    def _replace(self, lease: JsonObject) -> JsonObject:
        return self._put({**lease, "spec": self._spec(lease.get("spec") or {})})

    def _give_back(self) -> None:
        """Release the Lease if possible.

        If this fails, the next leader must wait for the lease duration.
        """
        if self._lease is None:
            return
        spec = {key: value for key, value in self._lease["spec"].items() if key != "holderIdentity"}
        try:
            self._lease = self._put({**self._lease, "spec": spec})
        except (ApiStatusError, RecordsUnavailableError) as error:
            _log.warning("reaper_lease_not_given_back", reason=str(error))
            self._lease = None

    def _put(self, body: Any) -> JsonObject:
        request = partial(self._api.replace_namespaced_lease, lease_name(self._instance), self._namespace, body)
        return self._server.request(request)

    def _spec(self, before: JsonObject) -> JsonObject:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        is_own = before.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, ceil(self._candidacy.duration_seconds)),
            "acquireTime": before.get("acquireTime", now) if is_own else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0) + (0 if is_own or not before else 1),
        }

    def _observe(self, lease: JsonObject) -> None:
        spec = lease.get("spec") or {}
        seen = LeaseState(
            holder=spec.get("holderIdentity") or "",
            mark=f"{lease['metadata']['uid']} {spec.get('renewTime')} {spec.get('leaseTransitions')}",
            duration_seconds=float(spec.get("leaseDurationSeconds") or 0),
        )
        self._candidacy.observe(seen, time.monotonic())

    def _is_own(self) -> bool:
        return self._lease is not None and (self._lease.get("spec") or {}).get("holderIdentity") == self.identity

    def _log_leadership(self, on_change: Callable[[], None]) -> None:
        leads = self.leads()
        if leads == self._logged_leading:
            return
        self._logged_leading = leads
        _log.info("leadership_acquired" if leads else "leadership_lost", identity=self.identity)
        on_change()

    def _log_failure(self, reason: str) -> None:
        if self._logged_reason is None:
            _log.warning("leader_election_delayed", reason=reason)
        self._logged_reason = reason
