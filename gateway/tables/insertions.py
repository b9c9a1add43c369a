"""Insertions into a temporary table, which Spark executes as for a table of its own.

Spark does not know the name of the table, because it inserts into a view of files
(:mod:`gateway.stored_tables.insert_plans`). Therefore, its error messages get the name here.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from grpc import aio
from pyspark.sql.types import StructType

from gateway.backends.backend_session import BackendSession
from gateway.errors import BackendError, GatewayError
from gateway.messages.error_status import info_of, with_text
from gateway.sql.name_syntax import quote_name
from gateway.sql.statements import ModificationKind
from gateway.stored_tables.insert_plans import PLACEHOLDER, InsertedRows
from gateway.stored_tables.partitions import build_texts, partition_path
from gateway.stored_tables.rewriting import CARDINALITY, read_raised
from gateway.tables.table_errors import empty_partition_value, several_rows_match, value_too_large
from workspace.name_comparison import comparable_name
from workspace.records import TemporaryTable, WriteKind

_UNKNOWN = ("`unknown`", "unknown")
"""What Spark calls a table that is not in a catalog."""
_REWRITTEN = frozenset(kind.value for kind in ModificationKind)
"""The statements whose text Lodge rewrites."""
_EMPTY_TEXTS = ("''", '""')
_PLACE = re.compile(r" ?\(line \d+, pos \d+\)|\s*== SQL.*", re.DOTALL)
"""Where something is in a SQL text, in a message of Spark."""


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
    """

    table: str
    rows: InsertedRows
    overwrite: bool = False
    is_dynamic: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)

    def kind(self, table: TemporaryTable) -> WriteKind:
        """Return how the rows change a table."""
        if not self.overwrite:
            return WriteKind.INSERTION
        is_dynamic = self.is_dynamic and len(self.constants) < len(table.partition_columns)
        return WriteKind.PARTITION_OVERWRITING if self.constants or is_dynamic else WriteKind.OVERWRITING

    async def replaced_partition(
        self, table: TemporaryTable, schema: StructType, backend: BackendSession
    ) -> tuple[str, ...]:
        """Return the partition that the rows replace. Empty if the new rows determine which ones they replace.

        Raises:
            BackendError: If a constant is not a value of its column.
            GatewayError: If a constant is an empty text.
        """
        if any(text in _EMPTY_TEXTS for text in self.constants.values()):
            raise empty_partition_value(", ".join(f"{name}={text}" for name, text in self.constants.items()))
        is_dynamic = self.is_dynamic and len(self.constants) < len(table.partition_columns)
        names = list(map(comparable_name, table.partition_columns[: len(self.constants)]))
        constants = {comparable_name(name): text for name, text in self.constants.items()}
        is_refused = constants.keys() != set(names) or "DEFAULT" in map(str.upper, constants.values())
        if not self.overwrite or not constants or is_dynamic or is_refused:
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


def of_client(error: BackendError, table: str, statement: str = "INSERT") -> GatewayError:
    """Return the error of Spark for an insertion, with the name of the table and without texts of Lodge."""
    info = info_of(error.error)
    parameters = {} if info is None else json.loads(info.metadata.get("messageParameters", "{}"))
    text = error.error.details() or ""
    raised = read_raised(parameters.get("errorMessage", ""))
    if raised is not None:
        condition, values = raised
        return several_rows_match() if condition == CARDINALITY else value_too_large(values)
    unknown = parameters.get("tableName")
    if unknown in _UNKNOWN:
        parameters["tableName"] = quote_name(table)
        text = text.replace(unknown, quote_name(table), 1)
    elif PLACEHOLDER in text or statement in _REWRITTEN:
        text = _PLACE.sub("", text)
    elif parameters.get("statement") == "INSERT" != statement:
        parameters["statement"] = statement
        text = text.replace("execute INSERT command", f"execute {statement} command", 1)
    else:
        return error
    changed = with_text(tuple(error.error.trailing_metadata() or ()), text, parameters)
    return BackendError(
        aio.AioRpcError(error.error.code(), aio.Metadata(), aio.Metadata(*changed), text), error.backend
    )
