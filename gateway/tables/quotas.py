"""Quotas for the number and size of temporary tables of sessions and principals.

Not guaranteed: sessions of the same principal that create tables at the same time can exceed the quota of the
principal. Each session has its own record, and a check reads the records of other sessions without locking them.
"""

from collections.abc import Iterable

from gateway.config import Limits
from gateway.errors import GatewayError
from gateway.sessions.session import Session
from gateway.tables.records import TableRecords
from workspace.records import SessionRecord


class Quotas:
    """Checks new tables and new rows against the quotas.

    Args:
        limits: The quotas.
        records: The session records.
    """

    def __init__(self, limits: Limits, records: TableRecords) -> None:
        self._limits = limits
        self._records = records

    @property
    def has_principal_tables(self) -> bool:
        """Whether the number of tables of a principal is limited."""
        return self._limits.principal_tables is not None

    def check_session_tables(self, record: SessionRecord) -> None:
        """Check that a session can have one more table.

        Raises:
            GatewayError: If the session has reached its quota.
        """
        limit = self._limits.session_tables
        if limit is not None and len(record.tables) >= limit:
            raise _limit_reached(f"A session can have at most {limit:,} temporary tables")

    async def check_principal_tables(self, session: Session, new_tables: int = 1) -> None:
        """Check that the principal of a session can have more tables.

        Args:
            session: The session.
            new_tables: The number of tables to create.

        Raises:
            GatewayError: If the principal would exceed its quota.
        """
        limit = self._limits.principal_tables
        if limit is None:
            return
        records = await self._records.of_principal(session.key.principal)
        if sum(len(record.tables) for record in records) + new_tables > limit:
            raise _limit_reached(f"A principal can have at most {limit:,} temporary tables in all sessions together")

    async def check_size(self, session: Session, written_bytes: int, replaced_bytes: int = 0) -> None:
        """Check that the rows written by a statement do not exceed a quota.

        Args:
            session: The session.
            written_bytes: The size of the new files.
            replaced_bytes: The size of the files that the new files replace.

        Raises:
            GatewayError: If the session or its principal would exceed its quota.
        """
        limit = self._limits.session_bytes
        if limit is not None:
            used = _size_bytes([await self._records.read(session)]) - replaced_bytes
            if used + written_bytes > limit:
                raise _limit_reached(
                    f"The temporary tables of a session can have at most {limit:,} bytes. They already have {used:,} "
                    f"bytes, and the statement wrote {written_bytes:,} bytes"
                )
        limit = self._limits.principal_bytes
        if limit is not None:
            used = _size_bytes(await self._records.of_principal(session.key.principal)) - replaced_bytes
            if used + written_bytes > limit:
                raise _limit_reached(
                    f"The temporary tables of a principal can have at most {limit:,} bytes in all sessions together. "
                    f"They already have {used:,} bytes, and the statement wrote {written_bytes:,} bytes"
                )


def _size_bytes(records: Iterable[SessionRecord]) -> int:
    return sum(table.size_bytes for record in records for table in record.tables)


def _limit_reached(quota: str) -> GatewayError:
    return GatewayError(
        "LODGE_LIMIT_REACHED",
        "53400",
        f"{quota}. Drop tables that you no longer need, or ask the operator for a higher limit.",
    )
