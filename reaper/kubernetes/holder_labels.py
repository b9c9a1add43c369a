"""Adds the holder label to session records that lack it.

Gateways find the records that concern them by the label. Objects of older releases have no label, and gateways of older
releases do not write it during an upgrade. Without the label, no gateway would adopt the sessions of these gateways.

The cost is one request in each period, regardless of the number of sessions. The API server returns only objects
without the label.
"""

from collections.abc import Callable

import structlog

from workspace.background_thread import BackgroundThread
from workspace.kubernetes.api_server import RetryPolicy
from workspace.kubernetes.connection import Connection
from workspace.kubernetes.session_records import KubernetesSessionRecords
from workspace.record_store import RecordsUnavailableError

_PERIOD_SECONDS = 15.0
_RETRY_POLICY = RetryPolicy(timeout_seconds=(2.0, 10.0), repeat_seconds=0.0)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class HolderLabels(BackgroundThread):
    """A context manager that adds missing labels in its own thread.

    Args:
        connection: The connection to the API server.
        may_write: A function that returns whether this reaper may act.
        period_seconds: The time between two searches.
    """

    def __init__(
        self, connection: Connection, may_write: Callable[[], bool], period_seconds: float = _PERIOD_SECONDS
    ) -> None:
        super().__init__("holder-labels", self._run)
        self._records = KubernetesSessionRecords(connection, _RETRY_POLICY)
        self._may_write = may_write
        self._period_seconds = period_seconds

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                if self._may_write():
                    self._add()
            except RecordsUnavailableError as error:
                _log.debug("holder_labels_not_added", reason=str(error))
            except Exception:  # noqa: BLE001 - a top loop, which must look for labels again
                _log.exception("holder_labels_failed")
            self.stopping.wait(self._period_seconds)

    def _add(self) -> None:
        labelled = self._records.add_holder_labels(lambda: self.stopping.is_set() or not self._may_write())
        if labelled:
            _log.info("holder_labels_added", records=labelled)
