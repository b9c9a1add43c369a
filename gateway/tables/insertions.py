"""Insertions into a temporary table, which Spark executes as for a table of its own.

Spark does not know the name of the table, because it inserts into a view of files
(:mod:`gateway.stored_tables.insert_plans`). Therefore, its error messages get the name here.
"""

import json
from dataclasses import dataclass

from grpc import aio

from gateway.errors import BackendError
from gateway.messages.error_status import info_of, with_text
from gateway.sql.name_syntax import quote_name
from gateway.stored_tables.insert_plans import InsertedRows

_UNKNOWN = "`unknown`"
"""What Spark calls a table that is not in a catalog."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows to insert into a table.

    Attributes:
        table: The name of the table.
        rows: The rows.
        overwrite: Whether the new rows replace all rows of the table.
    """

    table: str
    rows: InsertedRows
    overwrite: bool = False


def named(error: BackendError, table: str) -> BackendError:
    """Return the error of Spark for an insertion, with the name of the table."""
    info = info_of(error.error)
    parameters = {} if info is None else json.loads(info.metadata.get("messageParameters", "{}"))
    if parameters.get("tableName") != _UNKNOWN:
        return error
    name = quote_name(table)
    text = (error.error.details() or "").replace(_UNKNOWN, name, 1)
    changed = with_text(tuple(error.error.trailing_metadata() or ()), text, {**parameters, "tableName": name})
    return BackendError(
        aio.AioRpcError(error.error.code(), aio.Metadata(), aio.Metadata(*changed), text), error.backend
    )
