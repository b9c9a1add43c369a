"""Lists, drops and truncates partitions of temporary tables.

A partition exists if the table has files for it. Dropping and truncating a partition are the same: its rows are
replaced with none.

Source: ``ShowPartitionsCommand``, ``AlterTableDropPartitionCommand`` and ``TruncateTableCommand`` of Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import structlog
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import StructField, StructType

from gateway.blocking_work.storage import Storage
from gateway.errors import SparkError
from gateway.operations.responses import Response, build_row_response, build_sql_response
from gateway.sql.name_syntax import quote_name
from gateway.sql.statements import Partition
from gateway.stored_tables.insert_plans import InsertedRows
from gateway.stored_tables.partitions import build_texts, partition_path, partitions_of_files
from gateway.stored_tables.table_plans import build_empty_relation, build_session_table, encode_schema
from gateway.tables.execution import StatementExecutor
from gateway.tables.part_writer import PartWriter
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import empty_partition_value, not_partitioned, not_supported
from gateway.tables.temporary_tables import require_ready
from workspace.name_comparison import comparable_name
from workspace.records import TemporaryTable, WriteKind

log = structlog.get_logger(__name__)

Values = Mapping[str, str | None]
"""The texts of the values of a ``PARTITION`` clause by column. None for NULL."""

MAX_PARTITION_CLAUSES = 100
"""The number of ``PARTITION`` clauses of a statement, whose values one query returns."""

MAX_REMOVED_PARTITIONS = 500
"""The number of partitions that a statement removes without a rewriting. Each later read filters all of them."""


class PartitionChanges:
    """Lists, drops and truncates partitions of temporary tables.

    Args:
        storage: The session records.
        executor: Executes the changes of tables.
        parts: Writes new parts of tables.
    """

    def __init__(self, storage: Storage, executor: StatementExecutor, parts: PartWriter) -> None:
        self._records = TableRecords(storage)
        self._executor = executor
        self._parts = parts

    async def show(
        self, execution: Execution, table: TemporaryTable, partition: Partition, arguments: relations_pb2.SQL | None
    ) -> Response:
        """Return the partitions of a table, in the form of ``SHOW PARTITIONS``.

        Args:
            execution: The statement.
            table: The table.
            partition: The values of partition columns that the partitions have.
            arguments: The parameters that may occur in these values.

        Raises:
            GatewayError: If the table has no such partition columns, or the backend fails.
        """
        schema = await self._schema(execution, table)
        if partition:
            _, [(_, found)] = await self._match(execution, table, schema, [partition], arguments)
        else:
            found = await self._list(execution, table, schema)
        return build_sql_response(pa.table({"partition": pa.array(found, pa.string())}))

    async def exists(
        self, execution: Execution, table: TemporaryTable, partition: Partition, arguments: relations_pb2.SQL | None
    ) -> bool:
        """Return whether a table has a partition with the given values.

        Raises:
            GatewayError: If the table has no such partition columns, or the backend fails.
        """
        schema = await self._schema(execution, table)
        _, [(_, paths)] = await self._match(execution, table, schema, [partition], arguments)
        return bool(paths)

    async def find(
        self, execution: Execution, table: TemporaryTable, partition: Partition, arguments: relations_pb2.SQL | None
    ) -> Values:
        """Return the texts of the values of an existing partition by column, in the order of the columns.

        Raises:
            GatewayError: If there is no such partition, or a value is missing.
        """
        schema = await self._schema(execution, table)
        if len(partition) < len(table.partition_columns):
            raise _incomplete(table, partition)
        _, [(wanted, paths)] = await self._match(execution, table, schema, [partition], arguments)
        if not paths:
            raise _not_found(table.name, _described(wanted))
        return {field.name: wanted[field.name] for field in schema.fields if field.name in wanted}

    async def remove(
        self,
        execution: Execution,
        name: str,
        partitions: Sequence[Partition],
        arguments: relations_pb2.SQL | None,
        *,
        if_exists: bool,
        statement: str,
    ) -> Response:
        """Remove all rows of partitions.

        Args:
            execution: The statement.
            name: The name of the table.
            partitions: The values of partition columns, for each kind of partition to remove.
            arguments: The parameters that may occur in these values.
            if_exists: Whether partitions that do not exist are ignored.
            statement: The first words of the statement, for error messages.

        Raises:
            GatewayError: If a partition does not exist, or the statement failed. The table remains unchanged.
        """
        table = require_ready(await self._records.read(execution.session), name)
        schema = await self._schema(execution, table)
        if len(partitions) > MAX_PARTITION_CLAUSES:
            raise not_supported(
                table.name, f"{statement} with more than {MAX_PARTITION_CLAUSES} clauses", "Use DELETE FROM."
            )
        found, matching = await self._match(execution, table, schema, partitions, arguments)
        missing = [values for values, paths in matching if not paths]
        if missing and not if_exists:
            raise _not_found(table.name, ", ".join(map(_described, missing)))
        removed = {path for _, paths in matching for path in paths}
        if not removed:
            return build_row_response({})
        chosen = {path for values, paths in matching for path in _shortest(table, values, paths)}
        if len(chosen) > MAX_REMOVED_PARTITIONS and len(removed) < len(found):
            raise not_supported(
                table.name, f"{statement} of more than {MAX_REMOVED_PARTITIONS} partitions", "Use DELETE FROM."
            )
        write = self._parts.new_write(execution, schema, WriteKind.OVERWRITING)
        if len(removed) < len(found):
            write = replace(write, kind=WriteKind.PARTITION_OVERWRITING, partitions=tuple(sorted(chosen)))

        async def prepare() -> InsertedRows:
            return InsertedRows(build_empty_relation(encode_schema(schema)))

        answer = await self._parts.execute(execution, table, write, prepare, statement=statement)
        log.info("partitions_removed", table=table.name, partitions=len(removed))
        return answer

    async def _match(
        self,
        execution: Execution,
        table: TemporaryTable,
        schema: StructType,
        partitions: Sequence[Partition],
        arguments: relations_pb2.SQL | None,
    ) -> tuple[Sequence[str], Sequence[tuple[Values, Sequence[str]]]]:
        """Return all partitions of a table, and the values and the matching partitions of each ``PARTITION`` clause."""
        wanted = await _read_values(execution, table, schema, partitions, arguments)
        found = await self._list(execution, table, schema)
        return found, [(values, _matching(found, values)) for values in wanted]

    async def _list(self, execution: Execution, table: TemporaryTable, schema: StructType) -> Sequence[str]:
        """Return the paths of the partitions of a table, in order."""
        rows = await self._executor.views.contents(execution, table, schema)
        files = await execution.backend.list_input_files(rows)
        depth = len(table.partition_columns)
        found = set[str]()
        for part, hidden in table.visible_parts:
            paths = partitions_of_files((file for file in files if f"/{part}/" in file), part, depth)
            found.update(path for path in paths if {*hidden}.isdisjoint(_prefixes(path)))
        return sorted(found)

    @staticmethod
    async def _schema(execution: Execution, table: TemporaryTable) -> StructType:
        if not table.partition_columns:
            raise not_partitioned(table.name)
        return await execution.backend.analyze_schema(build_session_table(table.name))


async def _read_values(
    execution: Execution,
    table: TemporaryTable,
    schema: StructType,
    partitions: Sequence[Partition],
    arguments: relations_pb2.SQL | None,
) -> Sequence[Values]:
    """Return the texts of the values in each ``PARTITION`` clause by column, in the spelling of the table.

    Args:
        execution: The statement.
        table: The table.
        schema: The columns of the table.
        partitions: The clauses, in the order of the statement, as for its positional parameters.
        arguments: The parameters that may occur in the values.

    Raises:
        BackendError: If a value is not of the type of its column.
        GatewayError: If a column is not a partition column.
    """
    comparable = execution.settings.comparable_name
    own = set(map(comparable, table.partition_columns))
    fields = {comparable(field.name): field for field in schema.fields if comparable(field.name) in own}
    pairs = [pair for partition in partitions for pair in partition]
    unknown = [name for name, _ in pairs if comparable(name) not in fields]
    if unknown:
        raise _not_found(table.name, ", ".join(map(quote_name, unknown)))
    chosen = [fields[comparable(name)] for name, _ in pairs]
    numbered = [StructField(f"c{number}", field.dataType) for number, field in enumerate(chosen)]
    plan = build_texts(numbered, [f"CAST({value} AS STRING)" for _, value in pairs], arguments)
    texts = iter(await execution.backend.read_texts(plan, [field.name for field in numbered]))
    found = []
    for partition in partitions:
        values = {fields[comparable(name)].name: next(texts) for name, _ in partition}
        if "" in values.values():
            raise empty_partition_value(", ".join(f"{name}={text}" for name, text in values.items()))
        found.append(values)
    return found


def _prefixes(path: str) -> Sequence[str]:
    """Return a path and the paths of all partitions that contain it."""
    parts = path.split("/")
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def _shortest(table: TemporaryTable, values: Values, paths: Sequence[str]) -> Sequence[str]:
    """Return the paths, or the one that stands for all of them if the values are those of the first columns."""
    names = list(map(comparable_name, table.partition_columns[: len(values)]))
    own = {comparable_name(name): (name, value) for name, value in values.items()}
    if not paths or own.keys() != set(names):
        return paths
    ordered = [own[name] for name in names]
    return [partition_path([name for name, _ in ordered], [value for _, value in ordered])]


def _matching(paths: Sequence[str], values: Values) -> Sequence[str]:
    """Return the paths of the partitions that have the given values."""
    wanted = {partition_path([name], [value]) for name, value in values.items()}
    return [path for path in paths if wanted <= set(path.split("/"))]


def _described(values: Values) -> str:
    listed = ", ".join(f"{quote_name(name)} = {value}" for name, value in values.items())
    return f"PARTITION ({listed})"


def _incomplete(table: TemporaryTable, partition: Partition) -> SparkError:
    given, wanted = ", ".join(name for name, _ in partition), ", ".join(table.partition_columns)
    details = f"The spec ({given}) must match the partition spec ({wanted}) defined in table '{quote_name(table.name)}'"
    return SparkError("INVALID_PARTITION_SPEC", f"Partition spec is invalid. {details}.", details=details)


def _not_found(table: str, partitions: str) -> SparkError:
    return SparkError(
        "PARTITIONS_NOT_FOUND",
        f"The partition(s) {partitions} cannot be found in table {quote_name(table)}. Verify the partition "
        "specification and table name. To tolerate the error on drop use ALTER TABLE ... DROP IF EXISTS PARTITION.",
        partitionList=partitions,
        tableName=quote_name(table),
    )
