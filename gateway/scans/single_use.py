"""Finds the scans that only one place of one statement uses.

Spark pushes the filters of a query down to Lodge's data source, and keeps them with the relation of the scan. If a plan
uses the relation in two places, both get the filters of one of them. If a later statement uses it without filters, it
gets those of the earlier statement. Therefore filters may only be pushed down to scans of this module.

Guarantees:

1. A scan is found only if its statement is executed once, and if Spark does not copy it while it plans the statement.
   Spark copies common table expressions and the outer side of correlated subqueries. So plans and texts with subqueries
   have no such scans.
2. A scan that is found gets a value that no other statement has. Then no later statement finds it in Spark's cache of
   plans.

Source: [spark-data-source], ``PythonScanBuilder`` and ``SessionHolder.usePlanCache``.
"""

import re
from collections.abc import Iterator, Sequence

from google.protobuf.message import Message
from pyspark.sql.connect.proto import base_pb2, relations_pb2

from engine.scan_source import FORMAT

Relation = relations_pb2.Relation

_WRITES = ("write_operation", "write_operation_v2")
_OF_ONE_INPUT = frozenset(
    {
        "deduplicate",
        "drop",
        "filter",
        "hint",
        "html_string",
        "limit",
        "offset",
        "project",
        "repartition",
        "repartition_by_expression",
        "show_string",
        "sort",
        "subquery_alias",
        "tail",
        "to_df",
        "to_schema",
        "with_columns",
        "with_columns_renamed",
    }
)
_WORD = re.compile(r"\w+")
_COPYING_WORDS = frozenset({"begin", "lateral", "recursive", "with"})


def is_executed_once(message: Message) -> bool:
    """Return whether a message is a query or a write of a DataFrame.

    A view or a SQL command can use its scans later, or several times.
    """
    if not isinstance(message, base_pb2.Plan):
        return False
    return message.WhichOneof("op_type") == "root" or message.command.WhichOneof("command_type") in _WRITES


def find_single_uses(message: Message) -> Sequence[Relation]:
    """Return the scans that have only one use, of a message whose names are resolved."""
    if isinstance(message, Relation):  # of a statement that Lodge executes
        return list(_find(message))
    if not isinstance(message, base_pb2.Plan) or not is_executed_once(message):
        return []
    if message.HasField("root"):
        return list(_find(message.root))
    command = message.command
    return list(_find(getattr(command, str(command.WhichOneof("command_type"))).input))


def _find(relation: Relation) -> Iterator[Relation]:
    kind = relation.WhichOneof("rel_type")
    if kind == "read":
        if relation.read.data_source.format == FORMAT:
            yield relation
    elif kind in _OF_ONE_INPUT:
        yield from _find(getattr(relation, kind).input)
    elif kind == "aggregate" and not relation.aggregate.HasField("pivot"):
        yield from _find(relation.aggregate.input)
    elif kind == "join":
        yield from _find(relation.join.left)
        yield from _find(relation.join.right)
    elif kind == "set_op":
        yield from _find(relation.set_op.left_input)
        yield from _find(relation.set_op.right_input)
    elif kind == "with_relations" and relation.with_relations.root.HasField("sql"):
        yield from _find_in_text(relation.with_relations)


def _find_in_text(statement: relations_pb2.WithRelations) -> Iterator[Relation]:
    """Return the scans that a SQL text reads once, by their aliases."""
    text = statement.root.sql.query.casefold()
    words = _WORD.findall(text)
    if words.count("select") != 1 or not _COPYING_WORDS.isdisjoint(words):
        return
    for reference in statement.references:
        alias = reference.subquery_alias.alias.casefold()
        is_scan = reference.subquery_alias.input.read.data_source.format == FORMAT
        if is_scan and alias and text.count(alias) == 1:
            yield reference.subquery_alias.input
