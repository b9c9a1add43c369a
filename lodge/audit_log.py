"""Opens the audit log of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from lodge.errors import StartError
from lodge.logs import without_secrets
from lodge.settings import ReapSettings
from workspace.audit_log import STANDARD_OUTPUT, AuditLog

NO_AUDIT_LOG = "none"


def audit_destination(settings: ReapSettings) -> str | None:
    """Return the destination of the audit log: the path of a file, ``-`` for standard output, or None."""
    if settings.audit_log is None:
        return STANDARD_OUTPUT if getattr(settings, "authentication", None) else None
    return None if settings.audit_log == NO_AUDIT_LOG else settings.audit_log


@contextmanager
def open_audit_log(settings: ReapSettings) -> Iterator[AuditLog]:
    """Open the audit log, and close it after the block.

    Raises:
        StartError: If the file cannot be opened.
    """
    destination = audit_destination(settings)
    try:
        log = AuditLog(destination, processors=[without_secrets])
    except OSError as error:
        raise StartError(
            f"The audit log [{destination}] cannot be opened: {error.strerror}. Set --audit-log to a file that this "
            "process can write, or to - for standard output."
        ) from error
    try:
        yield log
    finally:
        log.close()
