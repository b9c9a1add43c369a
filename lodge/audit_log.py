"""Opens the audit log of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from structlog.typing import EventDict

from lodge.command_errors import StartError
from lodge.logs import without_secrets
from lodge.settings import ReapSettings, ServeSettings
from workspace.audit_log import STANDARD_OUTPUT, AuditLog

NO_AUDIT_LOG = "none"
_TEXTS = frozenset({"changed", "files", "name", "query_text", "reason", "tables", "target"})


def audit_destination(settings: ReapSettings) -> str | None:
    """Return the destination of the audit log: the path of a file, ``-`` for standard output, or None."""
    if settings.audit_log is None:
        has_method = isinstance(settings, ServeSettings) and bool(settings.authentication)
        return STANDARD_OUTPUT if has_method else None
    return None if settings.audit_log == NO_AUDIT_LOG else settings.audit_log


def _mask_secrets(logger: object, method: str, event: EventDict) -> EventDict:
    """Mask secrets in the fields with text of clients. This function is a structlog processor."""
    texts = {name: event[name] for name in _TEXTS & event.keys()}
    return {**event, **without_secrets(logger, method, texts)}


@contextmanager
def open_audit_log(settings: ReapSettings, *, replaces_gateway: bool = False) -> Iterator[AuditLog]:
    """Open the audit log, and close it after the block.

    Args:
        settings: The settings of the command.
        replaces_gateway: Whether this is a gateway that replaces another one. Then the events wait for a file that
            cannot be opened, because the sessions would end without a gateway.

    Raises:
        StartError: If the file cannot be opened.
    """
    destination = audit_destination(settings)
    try:
        log = AuditLog(destination, processors=[_mask_secrets], must_open=not replaces_gateway)
    except OSError as error:
        raise StartError(
            f"The audit log [{destination}] cannot be opened: {error.strerror}. Set --audit-log to a file that this "
            "process can write, or to - for standard output."
        ) from error
    try:
        yield log
    finally:
        log.close()
