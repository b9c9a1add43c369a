"""How many temporary tables a session and a principal may have, and how large."""

from collections.abc import Sequence

from gateway.config import Limits
from gateway.errors import GatewayError
from workspace.records import SessionRecord


def check_tables(limits: Limits, record: SessionRecord) -> None:
    """Raises: GatewayError if the session may have no more tables."""
    if limits.session_tables is not None and len(record.tables) >= limits.session_tables:
        raise _reached(f"A session may have {limits.session_tables:,} temporary tables")


def check_principals_tables(limits: Limits, records: Sequence[SessionRecord], more: int = 1) -> None:
    """Raises: GatewayError if the principal of these records may not have so many more tables."""
    there = sum(len(record.tables) for record in records)
    if limits.principal_tables is not None and there + more > limits.principal_tables:
        raise _reached(f"A principal may have {limits.principal_tables:,} temporary tables in all sessions together")


def check_bytes(limits: Limits, record: SessionRecord, more_bytes: int, replaced_bytes: int = 0) -> None:
    """Raises: GatewayError if so much more is too much for the session, in the place of what is replaced."""
    there = _size_bytes(record) - replaced_bytes
    if limits.session_bytes is not None and there + more_bytes > limits.session_bytes:
        raise _reached(
            f"The temporary tables of a session may have {limits.session_bytes:,} bytes; it has {there:,} and the "
            f"statement wrote {more_bytes:,}"
        )


def check_principals_bytes(
    limits: Limits, records: Sequence[SessionRecord], more_bytes: int, replaced_bytes: int = 0
) -> None:
    """Raises: GatewayError if so much more is too much for the principal of these records."""
    there = sum(map(_size_bytes, records)) - replaced_bytes
    if limits.principal_bytes is not None and there + more_bytes > limits.principal_bytes:
        raise _reached(
            f"The temporary tables of a principal may have {limits.principal_bytes:,} bytes in all sessions together; "
            f"they have {there:,} and the statement wrote {more_bytes:,}"
        )


def _size_bytes(record: SessionRecord) -> int:
    return sum(table.size_bytes for table in record.tables)


def _reached(what: str) -> GatewayError:
    return GatewayError(
        "LODGE_LIMIT_REACHED", "53400", f"{what}. Drop tables that are not needed any more, or ask for a higher limit."
    )
