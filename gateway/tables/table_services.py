"""The parts of a gateway that execute statements about tables and sessions."""

from gateway.auditing.audit import Audit
from gateway.authorization.authorization import Authorization
from gateway.blocking_work.current_work import CurrentWork
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.storage import Storage
from gateway.config import GatewayConfig
from gateway.operations.drain import Drain
from gateway.operations.operations import Operations
from gateway.sessions.registry import Sessions
from gateway.tables.alter_commands import AlterCommands
from gateway.tables.clones import TableCopies
from gateway.tables.data_frame_commands import DataFrameCommands
from gateway.tables.execution import StatementExecutor
from gateway.tables.followed_statements import FollowedStatements
from gateway.tables.insert_commands import InsertCommands
from gateway.tables.part_merging import PartMerging
from gateway.tables.part_writer import PartWriter
from gateway.tables.partition_changes import PartitionChanges
from gateway.tables.permanent_tables import PermanentTables
from gateway.tables.quotas import Quotas
from gateway.tables.records import TableRecords
from gateway.tables.row_changes import RowChanges
from gateway.tables.session_administration import SessionAdministration
from gateway.tables.sql_commands import SqlCommands, TableChanges
from gateway.tables.table_alterations import TableAlterations
from gateway.tables.temporary_tables import TemporaryTables
from workspace.identifiers import ReplicaId


class TableServices:
    """Executes statements about tables and sessions.

    Args:
        replica: The name of this replica.
        storage: The session records, leases and session locations.
        sessions: The sessions that this replica serves.
        operations: The operations of this replica.
        workspaces: The configured workspaces.
        config: The configuration of this replica.
        audit: The audit events of this replica.
        drain: What this replica hands over when it stops.
        work: The memory in which this replica notes on which requests it works.

    Attributes:
        records: The session records.
        tables: The temporary tables.
        copies: Copies the tables of sessions that are cloned.
        followed: The statements that other replicas began.
        sql: Selects the execution of a SQL statement.
        commands: Selects the execution of a DataFrame API command.
    """

    def __init__(
        self,
        *,
        replica: ReplicaId,
        storage: Storage,
        sessions: Sessions,
        operations: Operations,
        workspaces: CurrentWorkspaces,
        config: GatewayConfig,
        audit: Audit,
        drain: Drain,
        work: CurrentWork,
    ) -> None:
        self.records = TableRecords(storage)
        self._executor = StatementExecutor(replica, storage, sessions, drain)
        quotas = Quotas(config.limits, self.records)
        parts = PartWriter(replica, storage, self._executor, quotas)
        self._merging = PartMerging(storage, self._executor, parts)
        self.tables = TemporaryTables(
            replica=replica,
            storage=storage,
            executor=self._executor,
            workspaces=workspaces,
            quotas=quotas,
            parts=parts,
            merging=self._merging,
        )
        self.copies = TableCopies(replica, storage, sessions, self._executor, quotas)
        authorization = Authorization(config.admins)
        permanent = PermanentTables(
            replica,
            storage,
            sessions,
            self._executor,
            workspaces=workspaces,
            authorization=authorization,
            audit=audit,
            drain=drain,
        )
        self.followed = FollowedStatements(
            replica=replica,
            storage=storage,
            sessions=sessions,
            operations=operations,
            tables=self.tables,
            permanent=permanent,
            executor=self._executor,
            lease_seconds=config.lease_duration_seconds,
            drain=drain,
            work=work,
        )
        self._administration = SessionAdministration(storage, sessions, operations, authorization, audit)
        rows = RowChanges(storage, self._executor, parts)
        alterations = TableAlterations(storage, self.tables, parts)
        partitions = PartitionChanges(storage, self._executor, parts)
        changes = TableChanges(
            insertions=InsertCommands(self.records, self.tables, rows, partitions),
            alterations=AlterCommands(alterations, partitions),
            rows=rows,
            columns=alterations,
            partitions=partitions,
        )
        self.sql = SqlCommands(self.tables, changes, permanent, self._administration)
        self.commands = DataFrameCommands(self.tables, rows)

    async def stop(self) -> None:
        """Wait for background tasks to finish."""
        await self._merging.stop()
        await self._executor.stop()
        await self._administration.stop()
