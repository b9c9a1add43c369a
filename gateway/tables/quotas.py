"""Quotas for the number and size of temporary tables of sessions and principals.

Each session has its own record, so no single compare-and-swap covers a principal. Instead, a statement first adds to
the record of its session what it will use, and then counts all records of the principal. If the sum exceeds the quota,
the statement fails and is undone.

Guarantees:

1. A quota is never exceeded, whatever the number of sessions, gateways and concurrent statements. Of two statements,
   the one that writes later counts the other.
2. A refused statement is undone like any other failed statement.

Not guaranteed: if two statements compete for the last place, both can be refused.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from gateway.config import Limits
from gateway.errors import GatewayError
from gateway.sessions.session import Session
from gateway.tables.records import TableRecords
from workspace.identifiers import TableUuid
from workspace.records import PendingWrite, SessionRecord, TemporaryTable

CheckSize = Callable[[SessionRecord], Awaitable[None]]
"""A function that raises GatewayError if a statement wrote too many bytes.

Its argument is the session record that contains the size of the write.
"""


class Quotas:
    """Checks new tables and new rows against the quotas.

    Args:
        limits: The quotas.
        records: The session records.
    """

    def __init__(self, limits: Limits, records: TableRecords) -> None:
        self._limits = limits
        self._records = records

    def check_session_tables(self, record: SessionRecord) -> None:
        """Check that a session can have one more table.

        Raises:
            GatewayError: If the session has reached its quota.
        """
        limit = self._limits.session_tables
        if limit is not None and len(record.tables) >= limit:
            raise _limit_reached(f"A session can have at most {limit:,} temporary tables")

    async def check_principal_tables(self, session: Session, new_tables: int = 0) -> None:
        """Check that the tables of a principal do not exceed its quota.

        Args:
            session: A session of the principal.
            new_tables: The number of tables that no record contains yet.

        Raises:
            GatewayError: If the principal exceeds its quota.
        """
        limit = self._limits.principal_tables
        if limit is None:
            return
        records = await self._records.of_principal(session.key.principal)
        if sum(len(record.tables) for record in records) + new_tables > limit:
            raise _limit_reached(f"A principal can have at most {limit:,} temporary tables in all sessions together")

    def size_check(self, session: Session, write: PendingWrite) -> CheckSize | None:
        """Return the check of the size of a write. None if no quota limits the size of tables."""
        if self._limits.session_bytes is None and self._limits.principal_bytes is None:
            return None
        return partial(self._check_size, session, write.directory)

    async def check_copies(self, session: Session, record: SessionRecord) -> None:
        """Check that copies of tables in a session do not exceed a quota.

        Args:
            session: The session.
            record: The session record, which contains the copies.

        Raises:
            GatewayError: If the session or its principal exceeds its quota.
        """
        await self.check_principal_tables(session)
        await self._check_size(session, None, record)

    async def _check_size(self, session: Session, own: TableUuid | None, record: SessionRecord) -> None:
        """Check that the tables of a session and of its principal are not too large.

        Args:
            session: The session.
            own: The directory of the write that asks. None if the record contains all bytes as tables.
            record: The session record.

        Raises:
            GatewayError: If the session or its principal exceeds its quota.
        """
        limit = self._limits.session_bytes
        if limit is not None and used_bytes([record], own) > limit:
            raise _limit_reached(
                f"The temporary tables of a session can have at most {limit:,} bytes. {_explain([record], own)}"
            )
        limit = self._limits.principal_bytes
        if limit is None:
            return
        records = await self._records.of_principal(session.key.principal)
        if used_bytes(records, own) > limit:
            raise _limit_reached(
                f"The temporary tables of a principal can have at most {limit:,} bytes in all sessions together. "
                f"{_explain(records, own)}"
            )


def used_bytes(records: Iterable[SessionRecord], own: TableUuid | None = None) -> int:
    """Return the size of all tables, including the rows that statements have written and not yet published.

    Args:
        records: The session records.
        own: The directory of the write that asks. The rows that it replaces do not count. The rows that other
            statements replace count until they are replaced, because these statements can still fail.
    """
    return sum(_table_bytes(table, own) for record in records for table in record.tables)


def _table_bytes(table: TemporaryTable, own: TableUuid | None) -> int:
    writes = [write for write in table.writes if not write.is_published]
    overwriting = [write for write in writes if write.replaces_all]
    replaces = any(write.directory == own for write in overwriting)
    before = 0 if replaces else table.size_bytes
    added = sum(write.size_bytes for write in writes if not write.replaces_all)
    return max([before, *(write.size_bytes for write in overwriting)]) + added


def _explain(records: Iterable[SessionRecord], own: TableUuid | None) -> str:
    found = list(records)
    used = used_bytes(found, own)
    writes = (write for record in found for table in record.tables for write in table.writes)
    written = next((write.size_bytes for write in writes if write.directory == own), None)
    if written is None:
        return f"With the copies, they would have {used:,} bytes"
    return f"They already have {used - written:,} bytes, and the statement wrote {written:,} bytes"


def _limit_reached(quota: str) -> GatewayError:
    return GatewayError(
        "LODGE_LIMIT_REACHED",
        "53400",
        f"{quota}. Drop tables that you no longer need, or ask the operator for a higher limit.",
    )
