"""Errors of Spark for changes of a table, as the client gets them.

Spark does not know the name of the table, because it inserts into a view of files
(:mod:`gateway.stored_tables.insert_plans`). It also does not know the statement that Lodge executes as an insertion.
"""

import json
import re

from grpc import aio

from gateway.errors import BackendError, GatewayError
from gateway.messages.error_status import info_of, with_text
from gateway.sql.name_syntax import quote_name
from gateway.sql.statements import ModificationKind
from gateway.stored_tables.insert_plans import PLACEHOLDER
from gateway.stored_tables.rewriting import CARDINALITY, read_raised
from gateway.tables.table_errors import several_rows_match, value_too_large

_UNKNOWN = ("`unknown`", "unknown")
"""What Spark calls a table that is not in a catalog."""
_REWRITTEN = frozenset(kind.value for kind in ModificationKind)
"""The statements whose text Lodge rewrites."""
_PLACE = re.compile(r" ?\(line \d+, pos \d+\)|\s*== SQL.*", re.DOTALL)
"""Where something is in a SQL text, in a message of Spark."""


def for_client(error: BackendError, table: str, statement: str = "INSERT") -> GatewayError:
    """Return the error of Spark with the name of the table and without texts of Lodge.

    Args:
        error: The error.
        table: The name of the table.
        statement: The first words of the statement of the client.
    """
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
    elif PLACEHOLDER in text or (statement in _REWRITTEN and _PLACE.search(text)):
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
