"""Keeps the views of temporary tables in step with the session record.

Guarantee: if two replicas change the same table at the same time, the view matches the session record in the end.
Each replica creates the view from a record that it has read. Afterwards, the replica checks that the record still
describes the same table.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructType

from gateway.blocking_work.storage import Storage
from gateway.errors import STORAGE_UNAVAILABLE, GatewayError
from gateway.sql.name_syntax import qualify_with_session
from gateway.stored_tables.partitions import in_partitions
from gateway.stored_tables.storage_formats import storage_options
from gateway.stored_tables.table_plans import (
    build_scan,
    build_session_table,
    build_union,
    build_unreadable_relation,
    build_view,
    decode_schema,
    to_spark_path,
)
from gateway.tables.background import let_arrive, run_to_completion
from gateway.tables.changes import find_pending, named, same_table
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from workspace.record_changes import find_table
from workspace.records import PendingChange, PendingDrop, PendingWrite, SessionRecord, TableState, TemporaryTable

_VIEW_SECONDS = 120.0
_UNREADABLE = (
    "The storage of temporary table [{}] was absent while Lodge changed the table. Lodge repairs the table when the "
    "storage is available again. Try again later."
)

log = structlog.get_logger(__name__)


class ViewSync:
    """Creates, replaces and drops the views of temporary tables in backend sessions.

    Args:
        storage: The session locations and session records.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._records = TableRecords(storage)

    async def create(self, execution: Execution, table: TemporaryTable, schema: StructType) -> None:
        """Create or replace the view of a table. The view reads all parts of the table.

        Raises:
            GatewayError: If the backend fails.
            OSError: If the storage is not there before or after the view is created. If a directory disappears while
                Spark lists it, Spark treats it as empty as long as the view exists. Therefore, the new view is replaced
                by one that cannot be read.
        """
        relation = await self.contents(execution, table, schema)
        await let_arrive(execution.backend.operations.execute(build_view(table.name, relation)))
        try:
            await self._storage.run_location(self._directories, execution, table)
        except (GatewayError, OSError):
            unreadable = build_unreadable_relation(schema, _UNREADABLE.format(table.name))
            with suppress(GatewayError):
                await run_to_completion(execution.backend.operations.execute(build_view(table.name, unreadable)))
            raise

    async def contents(
        self, execution: Execution, table: TemporaryTable, schema: StructType, *, has_file_metadata: bool = False
    ) -> relations_pb2.Relation:
        """Return a relation with the visible rows of a table. It can have the column ``_metadata`` of their files.

        Raises:
            OSError: If the storage is not there.
        """
        scan = partial(
            build_scan,
            storage_format=table.storage_format,
            schema=schema,
            options=storage_options(table),
            partition_columns=table.partition_columns,
            has_file_metadata=has_file_metadata,
        )
        directories = await self._storage.run_location(self._directories, execution, table)
        if not table.partition_columns:
            return scan(directories)
        return build_union(
            [
                in_partitions(scan([path]), schema, hidden, negated=True) if hidden else scan([path])
                for path, (_, hidden) in zip(directories, table.visible_parts, strict=True)
            ]
        )

    def _directories(self, execution: Execution, table: TemporaryTable) -> Sequence[str]:
        parts = [part for part, _ in table.visible_parts]
        return list(map(to_spark_path, self._storage.locations.table_paths(execution.session.uuid, parts)))

    async def synchronise(
        self,
        execution: Execution,
        record: SessionRecord,
        table: TemporaryTable,
        change: PendingChange,
        *,
        former_name: str = "",
    ) -> None:
        """Create, replace or drop the view of a table to match the session record.

        The view of a table that can be read stays as it is if the change has no schema. This is the case if the table
        was dropped while the statement that creates it had not created the view yet. That statement creates the view.

        Args:
            execution: The statement.
            record: The session record.
            table: The table, with its name in the spelling that Spark uses.
            change: The change that contains the schema of the table.
            former_name: The name of the table before the undo of a renaming.

        Raises:
            GatewayError: If the backend fails or does not respond in time.
        """
        current = same_table(record, table)
        try:
            async with asyncio.timeout(_VIEW_SECONDS):
                if current is not None and current.state is TableState.READY:
                    is_replacement = isinstance(change, PendingWrite) and change.definition is not None
                    text = current.schema or ("" if is_replacement else change.schema)  # unknown after an undo
                    if text:
                        named_table = replace(current, name=named(record, table).name)
                        await self.create(execution, named_table, decode_schema(text))
                        await self._drop_other_names(execution, record, current, change, former_name)
                elif find_table(record, table.name) is current:
                    await let_arrive(execution.backend.drop_temp_view(table.name))
        except TimeoutError:
            raise GatewayError(
                "LODGE_BACKEND_SILENT",
                "58000",
                f"The backend did not respond within {_VIEW_SECONDS:.0f} s while Lodge changed the view of "
                f"[{table.name}].",
            ) from None

    @staticmethod
    async def _drop_other_names(
        execution: Execution, record: SessionRecord, table: TemporaryTable, change: PendingChange, former_name: str
    ) -> None:
        """Drop the views with the names that a table had before a renaming, or has not got from it."""
        names = (*table.other_names, former_name, change.other_name if isinstance(change, PendingWrite) else "")
        for name in {*names} - {""}:
            if find_table(record, name) is None:
                await let_arrive(execution.backend.drop_temp_view(name))

    async def shows(self, execution: Execution, table: TemporaryTable, change: PendingChange) -> bool:
        """Return whether the view of a table shows the result of a published change.

        The answer is False if the backend fails, because then nobody sees the table.
        """
        backend = execution.backend
        try:
            exists = await backend.table_exists(qualify_with_session(table.name))
            if isinstance(change, PendingDrop):
                return not exists
            if not exists:
                return False
            files = await backend.list_input_files(build_session_table(table.name))
        except GatewayError:
            return False
        return any(f"/{change.directory}/" in file for file in files)

    async def show(
        self,
        execution: Execution,
        table: TemporaryTable,
        change: PendingChange,
        transition: Callable[[SessionRecord], SessionRecord] = lambda record: record,
        *,
        shown: object = None,
    ) -> object:
        """Let the view of a table show the contents that a transition of the session record leaves.

        The caller holds the lock of the session. If the backend fails, the view remains unchanged, so that the files
        of a change that is undone are deleted nevertheless.

        Args:
            execution: The statement.
            table: The table, with its name in the spelling that Spark uses.
            change: The change that contains the schema of the table.
            transition: The transition.
            shown: What this method returned before. None if the view is not known.

        Returns:
            The contents that the view shows.

        Raises:
            GatewayError: If the storage fails.
            OSError: If the storage is not there.
        """
        while True:  # other replicas may change the table while its view is being created
            stored = await self._records.read(execution.session)
            change = find_pending(stored, table, change) or change
            record = transition(stored)
            contents = (contents_of(same_table(record, table)), bool(change.schema))
            if contents == shown:
                return shown
            former = same_table(stored, table)
            former_name = "" if former is None else former.name
            try:
                await self.synchronise(execution, record, table, change, former_name=former_name)
            except GatewayError as error:
                if error.condition == STORAGE_UNAVAILABLE:
                    raise
                log.warning("view_left", table=table.name, reason=str(error))
                return contents
            shown = contents


def contents_of(table: TemporaryTable | None) -> object:
    """Return a value that changes exactly when the view of a table must be replaced."""
    return None if table is None else (table.name, table.state, table.visible_parts, table.schema)
