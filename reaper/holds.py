"""What holds the reaper back, told once when it begins and once when it is over.

Why it exists: a reaper that cannot read the truth does nothing, perhaps for hours. That must be seen at once and at any
time, and must not fill the log.
"""

from collections.abc import Mapping
from types import MappingProxyType

import structlog

from reaper.reports import HoldBegan, HoldEnded, ReportHandler

RECORDS = "records"
"""Session records or leases cannot be read."""
STORAGE = "storage"
"""Session locations cannot be read."""
ROOT = "root"
"""Another file system is in the place of a root, or none."""
MASS_EXPIRY = "mass_expiry"
"""So many sessions look dead that a person must confirm it."""

KINDS = (RECORDS, STORAGE, ROOT, MASS_EXPIRY)


class Holds:
    """What holds the reaper back now; written by one thread, read by any.

    Args:
        log: Where changes are told.
        report: Gets them as well.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger, report: ReportHandler) -> None:
        self._log = log
        self._report = report
        self._reasons: Mapping[str, str] = MappingProxyType({})

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why, by kind; empty if nothing holds the reaper back."""
        return self._reasons

    def begin(self, kind: str, reason: str, **fields: object) -> None:
        """Something holds; told if it did not before."""
        is_new = kind not in self._reasons
        self._reasons = MappingProxyType({**self._reasons, kind: reason})
        if is_new:
            self._log.warning("reaper_held_back", kind=kind, reason=reason, **fields)
            self._report(HoldBegan(kind, reason))

    def end(self, *kinds: str) -> None:
        """These hold no more."""
        for kind in self._reasons.keys() & set(kinds):
            self._reasons = MappingProxyType({k: reason for k, reason in self._reasons.items() if k != kind})
            self._log.info("reaper_went_on", kind=kind)
            self._report(HoldEnded(kind))
