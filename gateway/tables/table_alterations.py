"""Alters temporary tables: their columns, comments, default values and properties.

The files of a table stay as they are. Other columns take effect with a new part without rows, so that they are
published, completed and undone like rows.

Source: what Spark supports for its own tables in files (``AlterTableAddColumnsCommand``,
``AlterTableChangeColumnCommand``, ``AlterTableSetPropertiesCommand``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog
from pyspark.sql.types import ArrayType, MapType, StructField, StructType, TimestampType

from gateway.backends.backend_session import BackendSession
from gateway.blocking_work.storage import Storage
from gateway.errors import BackendError, column_not_found
from gateway.operations.responses import Response, build_row_response
from gateway.sql.column_definitions import ColumnDefinitions
from gateway.sql.string_literals import text_expression
from gateway.sql.table_alteration import ChangeColumn
from gateway.stored_tables.column_metadata import (
    CHAR_OR_VARCHAR,
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    has_limits_or_default,
    replace_limits,
    sql_type,
    stored_schema,
)
from gateway.stored_tables.insert_plans import InsertedRows, no_rows
from gateway.stored_tables.partitions import build_texts
from gateway.stored_tables.storage_formats import check_columns, check_properties, find_storage_format
from gateway.stored_tables.table_plans import build_session_table, encode_schema
from gateway.tables.changes import is_name_taken, same_table
from gateway.tables.part_writer import PartWriter
from gateway.tables.records import TableRecords
from gateway.tables.statement_context import Execution
from gateway.tables.table_errors import (
    column_already_exists,
    not_supported,
    partition_column_altered,
    type_changed,
    unsupported_definition,
)
from gateway.tables.temporary_tables import TemporaryTables, require_ready
from workspace.record_changes import put_table
from workspace.records import SessionRecord, TemporaryTable, WriteKind

log = structlog.get_logger(__name__)


class TableAlterations:
    """Alters temporary tables.

    Args:
        storage: The session records.
        tables: The temporary tables.
        parts: Writes new parts of tables.
    """

    def __init__(self, storage: Storage, tables: TemporaryTables, parts: PartWriter) -> None:
        self._records = TableRecords(storage)
        self._tables = tables
        self._parts = parts

    async def add_columns(self, execution: Execution, name: str, definitions: ColumnDefinitions) -> Response:
        """Add columns to a table. Existing rows get the default values.

        Raises:
            GatewayError: If a column exists, or the format of the table cannot have it.
        """
        table = require_ready(await self._records.read(execution.session), name)
        if definitions.unsupported:
            raise unsupported_definition(name, definitions.unsupported)
        if table.storage_format == "csv":
            raise not_supported(name, "new columns, because it is stored as [csv]", "Use another format.")
        defined = await execution.backend.parse_schema(definitions.text)
        added = stored_schema(replace_limits(defined, execution.settings), dict(definitions.defaults))
        for each in defined.fields:
            if not each.nullable:
                raise not_supported(name, "new columns with NOT NULL", "Remove NOT NULL.")
        await _fix_defaults(execution.backend, added)
        old = await execution.backend.analyze_schema(build_session_table(name))
        comparable = execution.settings.comparable_name
        names = [comparable(each.name) for each in (*old.fields, *added.fields)]
        twice = next((each.name for each in added.fields if names.count(comparable(each.name)) > 1), None)
        if twice is not None:
            raise column_already_exists(twice)
        check_columns(find_storage_format(table.storage_format, name), added, ())
        partitions = len(table.partition_columns)
        data = old.fields[: len(old.fields) - partitions]
        new = StructType([*data, *added.fields, *old.fields[len(data) :]])
        return await self._set_columns(execution, table, old, new, "ALTER TABLE ADD COLUMNS")

    async def change_column(self, execution: Execution, name: str, change: ChangeColumn) -> Response:
        """Change the comment or the default value of a column.

        Raises:
            GatewayError: If the column does not exist.
        """
        table = require_ready(await self._records.read(execution.session), name)
        old = await execution.backend.analyze_schema(build_session_table(name))
        comparable = execution.settings.comparable_name
        if comparable(change.column) not in map(comparable, old.names):
            raise column_not_found([change.column], old.names)
        if change.kind:
            await self._check_type(execution, table, old, change)
            if change.comment is None:
                return build_row_response({})
        fields = [
            _changed(each, change) if comparable(each.name) == comparable(change.column) else each
            for each in old.fields
        ]
        partitions = fields[len(fields) - len(table.partition_columns) :]
        if any(map(has_limits_or_default, partitions)):
            raise unsupported_definition(name, "PARTITION")
        return await self._set_columns(execution, table, old, StructType(fields), "ALTER TABLE ALTER COLUMN")

    @staticmethod
    async def _check_type(
        execution: Execution, table: TemporaryTable, columns: StructType, change: ChangeColumn
    ) -> None:
        """Check that a column keeps its type, as Spark does for a table in files.

        Raises:
            GatewayError: If the column would get another type, or is a partition column.
        """
        comparable = execution.settings.comparable_name
        field = next(each for each in columns.fields if comparable(each.name) == comparable(change.column))
        if comparable(change.column) in map(comparable, table.partition_columns):
            raise partition_column_altered(table.name, field.name)
        (defined,) = (await execution.backend.parse_schema(f"c {change.kind}")).fields
        own = str((field.metadata or {}).get(CHAR_OR_VARCHAR, field.dataType.simpleString()))
        new = defined.dataType.simpleString()
        if own != new:
            raise type_changed(table.name, field.name, own, new)

    async def set_properties(
        self, execution: Execution, name: str, values: Mapping[str, str], removed: Sequence[str] = ()
    ) -> Response:
        """Set and remove properties of a table.

        Raises:
            GatewayError: If the table does not exist any more.
        """
        table = require_ready(await self._records.read(execution.session), name)
        await self._records.change(execution.session, _with_properties(table, values, removed))
        return build_row_response({})

    async def rename(self, execution: Execution, name: str, new_name: str) -> Response:
        """Give a table another name.

        Raises:
            GatewayError: If the name is taken, or the statement failed. The table keeps its name.
        """
        record = await self._records.read(execution.session)
        table = require_ready(record, name)
        if is_name_taken(record, new_name):
            raise self._tables.already_exists(new_name)
        schema = await execution.backend.analyze_schema(build_session_table(name))
        write = replace(self._parts.new_write(execution, schema, WriteKind.RENAMING), other_name=new_name)
        await self._tables.check_name(new_name)

        async def prepare() -> InsertedRows:
            await self._tables.free_view_name(execution, new_name)
            return no_rows(schema)

        answer = await self._parts.execute(execution, table, write, prepare, statement="ALTER TABLE RENAME TO")
        log.info("temporary_table_renamed", table=name, new_name=new_name)
        return answer

    async def _set_columns(
        self, execution: Execution, table: TemporaryTable, old: StructType, new: StructType, statement: str
    ) -> Response:
        write = replace(
            self._parts.new_write(execution, new, WriteKind.ALTERATION),
            former_schema=table.schema or encode_schema(old),
        )

        async def prepare() -> InsertedRows:
            return no_rows(new)

        answer = await self._parts.execute(execution, table, write, prepare, statement=statement)
        log.info("table_altered", table=table.name, columns=len(new.fields))
        return answer


def _changed(field: StructField, change: ChangeColumn) -> StructField:
    """Return a column with another comment or another default value."""
    metadata = dict(field.metadata or {})
    if change.comment is not None:
        metadata["comment"] = change.comment
    if change.default:
        metadata[CURRENT_DEFAULT] = change.default
        metadata.setdefault(EXISTS_DEFAULT, "NULL")
    elif change.default is not None:
        metadata.pop(CURRENT_DEFAULT, None)
    return StructField(field.name, field.dataType, field.nullable, metadata)


async def _fix_defaults(backend: BackendSession, added: StructType) -> None:
    """Replace the default values for existing rows with constants, so that they do not change with time.

    If Spark cannot evaluate a value, it refuses the columns later.
    """
    simple = [
        field
        for field in added.fields
        if CURRENT_DEFAULT in field.metadata and not isinstance(field.dataType, ArrayType | MapType | StructType)
    ]
    if not simple:
        return
    numbered = [StructField(f"c{number}", field.dataType) for number, field in enumerate(simple)]
    plan = build_texts(numbered, [f"({field.metadata[CURRENT_DEFAULT]}\n)" for field in simple])
    try:
        found = await backend.read_texts(plan, [field.name for field in numbered])
    except BackendError:
        return
    for field, text in zip(simple, found, strict=True):
        field.metadata[EXISTS_DEFAULT] = "NULL" if text is None else _literal(field, text)


def _literal(field: StructField, text: str) -> str:
    zone = "Z" if isinstance(field.dataType, TimestampType) else ""
    return f"CAST({text_expression(text + zone)} AS {sql_type(field.dataType)})"


def _with_properties(
    table: TemporaryTable, values: Mapping[str, str], removed: Sequence[str]
) -> Callable[[SessionRecord], SessionRecord]:
    """Return a transition that sets and removes properties of a table."""

    def transition(record: SessionRecord) -> SessionRecord:
        current = same_table(record, table) or require_ready(record, table.name)
        kept = {key: value for key, value in current.properties if key not in removed}
        after = {**kept, **values}
        check_properties(after)
        return put_table(record, replace(current, properties=tuple(after.items())))

    return transition
