"""The partitions of a table, as paths of directories such as ``a=1/b=x``.

A path that names only the first partition columns stands for all partitions below it. Spark determines the text of each
value, so partitions are compared by their texts, and no value is parsed here.

Source: ``ExternalCatalogUtils.escapePathName`` and ``PartitioningUtils`` of Spark.
"""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from pyspark.sql.connect.proto import base_pb2, expressions_pb2, relations_pb2
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from gateway.sql.name_syntax import quote_name
from gateway.stored_tables.table_plans import call_function
from workspace.identifiers import TableUuid
from workspace.name_comparison import comparable_name

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The text that stands for NULL in the name of a directory."""

EMPTY_FILE = "empty"
"""The name of the file that a new part of a partitioned table contains."""

_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^").union(map(chr, range(1, 32)))
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")


def partition_path(names: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the path of a partition.

    Args:
        names: The first partition columns, in the spelling of the schema.
        values: The text of the value of each of them. None for NULL.
    """
    pairs = zip(names, values, strict=True)
    return "/".join(f"{_escape(name)}={_escape(value) if value else NO_VALUE}" for name, value in pairs)


def build_texts(
    fields: Sequence[StructField], constants: Sequence[str], arguments: relations_pb2.SQL | None = None
) -> base_pb2.Plan:
    """Return a query of the texts that Spark writes for constants as values of partition columns.

    Args:
        fields: The partition columns. The columns of the query have the same names.
        constants: The SQL text of each value.
        arguments: The parameters that may occur in the constants.
    """
    plan = base_pb2.Plan()
    sql = plan.root.sql
    if arguments is not None:
        sql.CopyFrom(arguments)
    values = [
        f"CAST({constant} AS {field.dataType.simpleString()})"
        for field, constant in zip(fields, constants, strict=True)
    ]
    sql.query = f"SELECT {_select_texts(fields, values)}"
    return plan


def build_touched_partitions(fields: Sequence[StructField], scope: str, condition: str, limit: int) -> str:
    """Return a query of the texts of the partitions that have rows for which a condition is true.

    Args:
        fields: The partition columns.
        scope: The ``FROM`` clause.
        condition: The condition.
        limit: The maximum number of partitions to return.
    """
    values = [quote_name(field.name) for field in fields]
    return f"SELECT DISTINCT {_select_texts(fields, values)} {scope} WHERE ({condition}\n) LIMIT {limit}"


def _select_texts(fields: Sequence[StructField], values: Sequence[str]) -> str:
    """Return the SQL text of columns with the texts of values."""
    pairs = zip(fields, values, strict=True)
    return ", ".join(f"{_text_of(value, field.dataType)} AS {quote_name(field.name)}" for field, value in pairs)


def _text_of(value: str, kind: DataType) -> str:
    """Return the SQL text of the text of a value in the name of a directory.

    Times are in UTC, in any time zone of the session. No conversion between time zones is involved, because a time zone
    has no times in the hour that it skips each year.
    """
    if isinstance(kind, TimestampType):
        value = f"timestampadd(MICROSECOND, unix_micros({value}), TIMESTAMP_NTZ'1970-01-01 00:00:00')"
    return f"CAST({value} AS STRING)"


def partitions_of_files(files: Iterable[str], part: TableUuid, depth: int) -> tuple[str, ...]:
    """Return the partitions that contain the rows of a part, in order.

    Args:
        files: The URIs of the files of the part.
        part: The directory of the part.
        depth: The number of partition columns.
    """
    inner = (unquote(file.partition(f"/{part}/")[2]).split("/") for file in files)
    return tuple(sorted({"/".join(names[:depth]) for names in inner if len(names) > depth and names[-1] != EMPTY_FILE}))


def overlap(one: str, other: str) -> bool:
    """Return whether two paths have a partition in common."""
    shorter, longer = sorted((one, other), key=len)
    return f"{longer}/".startswith(f"{shorter}/")


def in_partitions(
    relation: relations_pb2.Relation, schema: StructType, partitions: Sequence[str], *, negated: bool
) -> relations_pb2.Relation:
    """Return the rows of a relation that are in one of the partitions, or in none of them.

    Spark reads only the directories of these rows.

    Args:
        relation: The relation, which has the partition columns.
        schema: The columns of the table.
        partitions: The partitions. At least one.
        negated: Whether to return the rows that are in none of the partitions.
    """
    filtered = relations_pb2.Relation()
    filtered.filter.input.CopyFrom(relation)
    condition = _any([_is_in(schema, path) for path in partitions])
    filtered.filter.condition.CopyFrom(call_function("not", condition) if negated else condition)
    return filtered


def _is_in(schema: StructType, path: str) -> expressions_pb2.Expression:
    fields = {comparable_name(field.name): field for field in schema.fields}
    conditions = []
    for directory in path.split("/"):
        name, _, value = directory.partition("=")
        field = fields[comparable_name(_unescape(name))]
        column, text = expressions_pb2.Expression(), expressions_pb2.Expression()
        if value == NO_VALUE:
            column.unresolved_attribute.unparsed_identifier = quote_name(field.name)
            conditions.append(call_function("isnull", column))
        else:
            column.expression_string.expression = _text_of(quote_name(field.name), field.dataType)
            text.literal.string = _unescape(value)
            conditions.append(call_function("<=>", column, text))
    return _all(conditions)


def _any(conditions: Sequence[expressions_pb2.Expression]) -> expressions_pb2.Expression:
    """Return the disjunction of conditions as a tree of little depth."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return call_function("or", _any(conditions[:middle]), _any(conditions[middle:]))


def _all(conditions: Sequence[expressions_pb2.Expression]) -> expressions_pb2.Expression:
    if len(conditions) == 1:
        return conditions[0]
    return call_function("and", conditions[0], _all(conditions[1:]))


def _escape(name: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in name)


def _unescape(name: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
