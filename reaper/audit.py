"""The audit events of the reaper: ended sessions, and confirmations of a mass expiry.

``docs/reference/audit-log.md`` lists all events and fields, which are an interface.
"""

from reaper import reports
from workspace.audit_log import AuditLog

_EXPIRED = "holders_lost"
_REAPER = "reaper"


class ReaperAudit:
    """Writes audit events from reports. Thread-safe.

    Args:
        log: The audit log.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def take(self, report: reports.Report) -> None:
        """Write the event of a report, if there is one."""
        match report:
            case reports.SessionReaped(stored, reason):
                record = stored.record
                self._log.write(
                    "session_expired" if reason == _EXPIRED else "session_closed",
                    {
                        "principal": record.principal,
                        "session": record.client_session_id,
                        "location": record.session_uuid,
                        "reason": reason,
                        "by": _REAPER,
                    },
                )
            case reports.MassExpiryConfirmed(token, sessions):
                self._log.write(
                    "administrative_act", {"act": "confirm_mass_expiry", "target": token, "sessions": sessions}
                )
