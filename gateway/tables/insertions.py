"""Insertions into a temporary table: how the new rows change it, and which partition they replace."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from gateway.backends.backend_session import BackendSession
from gateway.errors import GatewayError
from gateway.stored_tables.insert_plans import InsertedRows
from gateway.stored_tables.partitions import build_texts, partition_path
from gateway.tables.table_errors import empty_partition_value
from workspace.name_comparison import comparable_name
from workspace.records import TemporaryTable, WriteKind

_EMPTY_TEXTS = ("''", '""')


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows to insert into a table.

    Attributes:
        table: The name of the table.
        rows: The rows.
        overwrite: Whether the new rows replace rows of the table.
        is_dynamic: Whether they replace only the rows of the partitions that they contain.
        constants: The partition columns that have the same value in all new rows, with the SQL text of the value. If
            the new rows replace rows, these have the same values.
        operation_id: The id under which the session record knows the insertion. Empty for that of the statement.
    """

    table: str
    rows: InsertedRows
    overwrite: bool = False
    is_dynamic: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)
    operation_id: str = ""

    def kind(self, table: TemporaryTable) -> WriteKind:
        """Return how the rows change a table."""
        if not self.overwrite:
            return WriteKind.INSERTION
        is_partial = self.constants or self._replaces_own_partitions(table)
        return WriteKind.PARTITION_OVERWRITING if is_partial else WriteKind.OVERWRITING

    @property
    def empty_value(self) -> GatewayError | None:
        """The error for a constant that is an empty text. None if there is none."""
        if all(text not in _EMPTY_TEXTS for text in self.constants.values()):
            return None
        return empty_partition_value(", ".join(f"{name}={text}" for name, text in self.constants.items()))

    async def replaced_partition(
        self, table: TemporaryTable, schema: StructType, backend: BackendSession
    ) -> tuple[str, ...]:
        """Return the partition that the rows replace. Empty if the new rows determine which ones they replace.

        Raises:
            BackendError: If a constant is not a value of its column.
            GatewayError: If a constant is an empty text.
        """
        names = list(map(comparable_name, table.partition_columns[: len(self.constants)]))
        constants = {comparable_name(name): text for name, text in self.constants.items()}
        is_refused = constants.keys() != set(names) or "DEFAULT" in map(str.upper, constants.values())
        if not self.overwrite or not constants or self._replaces_own_partitions(table) or is_refused:
            return ()
        fields = {comparable_name(each.name): each for each in schema.fields}
        ordered = [fields[name] for name in names]
        plan = build_texts(ordered, [constants[name] for name in names], self.rows.arguments)
        spelled = [each.name for each in ordered]
        texts = await backend.read_texts(plan, spelled)
        if "" in texts:
            spec = ", ".join(f"{name}={text}" for name, text in zip(spelled, texts, strict=True))
            raise empty_partition_value(spec)
        return (partition_path(spelled, texts),)

    def _replaces_own_partitions(self, table: TemporaryTable) -> bool:
        """Return whether the new rows replace only the rows of the partitions that they contain."""
        return self.is_dynamic and len(self.constants) < len(table.partition_columns)
