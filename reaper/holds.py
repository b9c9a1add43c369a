"""The holds of a reaper, which are reasons to remove nothing or not everything.

A reaper that cannot read its storage may be on hold for hours. Each hold is logged and reported once when it begins
and once when it ends. The current holds can be read at any time.
"""

from collections.abc import Mapping
from types import MappingProxyType

import structlog

from reaper.reports import HoldBegan, HoldEnded, ReportHandler

RECORDS = "records"
"""Session records or leases cannot be read."""
STORAGE = "storage"
"""Session locations cannot be read."""
WRITES = "writes"
"""The reaper cannot write what a gateway must write. The silence of a gateway does not show that it is dead."""
ROOT = "root"
"""A root is missing, or another file system is mounted in its place."""
MASS_EXPIRY = "mass_expiry"
"""So many sessions appear to be dead that a person must confirm their end."""

KINDS = (RECORDS, STORAGE, WRITES, ROOT, MASS_EXPIRY)


class Holds:
    """The current holds. One thread may change them, and any thread may read them.

    Args:
        log: The logger for changes.
        report: A function that is called with a report of each change.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger, report: ReportHandler) -> None:
        self._log = log
        self._report = report
        self._reasons: Mapping[str, str] = MappingProxyType({})

    @property
    def reasons(self) -> Mapping[str, str]:
        """The reason for each current hold, by kind."""
        return self._reasons

    def begin(self, kind: str, reason: str, **fields: object) -> None:
        """Begin a hold, or update the reason of an existing hold."""
        is_new = kind not in self._reasons
        self._reasons = MappingProxyType({**self._reasons, kind: reason})
        if is_new:
            self._log.warning("reaper_held_back", kind=kind, reason=reason, **fields)
            self._report(HoldBegan(kind, reason))

    def end(self, *kinds: str) -> None:
        """End the holds of the given kinds, if they exist."""
        for kind in self._reasons.keys() & set(kinds):
            self._reasons = MappingProxyType({k: reason for k, reason in self._reasons.items() if k != kind})
            self._log.info("reaper_resumed", kind=kind)
            self._report(HoldEnded(kind))
