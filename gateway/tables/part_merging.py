"""Merges the small parts of tables in the background, because each insertion adds a part.

Queries that began before a merge can still read the merged parts for some time.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import structlog
from pyspark.sql.connect.proto import relations_pb2

from gateway.blocking_work.storage import Storage
from gateway.errors import GatewayError
from gateway.operations.operations import Operation
from gateway.stored_tables.insert_plans import InsertedRows
from gateway.stored_tables.table_plans import build_session_table
from gateway.tables.background import BackgroundTasks
from gateway.tables.execution import StatementExecutor
from gateway.tables.part_writer import PartWriter
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import ChangeTakenError
from workspace.identifiers import SessionUuid, TableUuid
from workspace.record_changes import find_table
from workspace.records import TableState, TemporaryTable, WriteKind

MAX_SMALL_PARTS = 64
"""The number of parts from which on small parts are merged."""
_SMALL_BYTES = 32 * 1024 * 1024
_FILE_BYTES = 128 * 1024 * 1024

log = structlog.get_logger(__name__)


class PartMerging:
    """Merges the small parts of temporary tables.

    Args:
        storage: The session locations and session records.
        executor: Executes the changes of tables.
        parts: Writes new parts of tables.
    """

    def __init__(self, storage: Storage, executor: StatementExecutor, parts: PartWriter) -> None:
        self._storage = storage
        self._records = TableRecords(storage)
        self._executor = executor
        self._parts = parts
        self._tasks = BackgroundTasks()
        self._being_merged = set[TableUuid]()

    async def stop(self) -> None:
        """Stop all merges. Their statements are undone."""
        self._tasks.cancel()
        await self._tasks.wait()

    def start(self, execution: Execution, name: str) -> None:
        """Merge the small parts of a table in the background if there are many, and a copy of its rows is exact.

        Args:
            execution: The statement that has added a part.
            name: The name of the table.
        """
        request = replace(execution.operation.request, operation_id=str(uuid.uuid4()))
        self._tasks.start(self._merge(replace(execution, operation=Operation(request)), name))

    async def _merge(self, execution: Execution, name: str) -> None:
        try:
            table = find_table(await self._records.read(execution.session), name)
            if table is None or table.state is not TableState.READY or table.uuid in self._being_merged:
                return
            if len(table.parts) < MAX_SMALL_PARTS or execution.settings.find_inexact_times(table.storage_format):
                return
            self._being_merged.add(table.uuid)
            try:
                await self._merge_parts(execution, replace(table, name=name))
            finally:
                self._being_merged.discard(table.uuid)
        except (ChangeTakenError, GatewayError, OSError) as error:
            log.info("parts_not_merged", table=name, reason=str(error))

    async def _merge_parts(self, execution: Execution, table: TemporaryTable) -> None:
        sizes = await self._storage.run_slow(self._sizes, execution.session.uuid, table.parts)
        chosen = choose_parts(table, sizes)
        if not chosen:
            return
        schema = await execution.backend.analyze_schema(build_session_table(table.name))
        size_bytes = sum(sizes[part] for part in chosen)
        only = replace(table, parts=chosen, replacements=())
        rows = _in_few_files(await self._executor.views.contents(execution, only, schema), size_bytes)
        write = replace(
            self._parts.new_write(execution, schema, WriteKind.MERGING), replaced=chosen, replaced_bytes=size_bytes
        )

        async def prepare() -> InsertedRows:
            return InsertedRows(rows)

        await self._parts.execute(execution, table, write, prepare)
        log.info("parts_merged", table=table.name, parts=len(chosen), bytes=size_bytes)

    def _sizes(self, session_uuid: SessionUuid, parts: Sequence[TableUuid]) -> Mapping[TableUuid, int]:
        return {part: self._storage.locations.size_bytes(session_uuid, part) for part in parts}


def choose_parts(table: TemporaryTable, sizes: Mapping[TableUuid, int]) -> tuple[TableUuid, ...]:
    """Return the longest sequence of small parts. Empty if it is short.

    Parts that replace partitions of others, or of which partitions are replaced, are not merged.

    Args:
        table: The table.
        sizes: The size of each part in bytes.
    """
    replacing = {each.part for each in table.replacements}
    hidden = {part for part, partitions in table.visible_parts if partitions}
    kept = {part for part in table.parts if sizes[part] > _SMALL_BYTES} | replacing | hidden
    sequences = (tuple(parts) for is_kept, parts in groupby(table.parts, kept.__contains__) if not is_kept)
    longest = max(sequences, key=len, default=())
    return longest if len(longest) >= MAX_SMALL_PARTS // 2 else ()


def _in_few_files(rows: relations_pb2.Relation, size_bytes: int) -> relations_pb2.Relation:
    """Return rows in as many tasks as files of a reasonable size are needed for them."""
    few = relations_pb2.Relation()
    few.repartition.input.CopyFrom(rows)
    few.repartition.num_partitions = 1 + size_bytes // _FILE_BYTES
    few.repartition.shuffle = False
    return few
