"""Counts the files that the conditions of an explained statement exclude.

Spark decides which conditions it pushes down to a scan when it optimizes the statement. Therefore the gateway lets
Spark optimize a copy of the statement for each scan. In the copy, the scan has the task ``COUNT_PRUNED``: when Spark
pushes the filters down to it, it counts the files that they exclude, and ends the optimization with the answer.

Guarantees:

1. A number is the number of files that the engine would exclude by the conditions if the statement were executed now.
   Spark's own reader excludes at least these, because it also evaluates other conditions. If the gateway does not know
   the number, the summary does not contain one.
2. Nothing is executed. Statements that may contain a command, or another relation for which Spark runs a job while it
   analyzes a plan, are not copied.
3. An error in a copy does not affect the explained statement.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

import structlog
from google.protobuf.message import Message
from pyspark.sql.connect.proto import relations_pb2

from engine.pruned_files import BYTES, COUNT_PRUNED, FILES, PrunedFilesReport
from engine.scan_source import PLANNED, SINGLE_USE, TASK
from engine.schema import IMPLICIT
from gateway.backend_failures import find_scan_report
from gateway.backend_session import BackendSession
from gateway.errors import BackendError
from gateway.scans.scan_signatures import sign_scan
from gateway.scans.scan_summary import ScanSummary
from gateway.scans.single_use import MAX_BYTES, find_parts, skip_explain
from gateway.sql.cursor import Cursor
from gateway.sql.lexer import VARIABLE_START, Dialect, Token, iterate_tokens
from gateway.sql.read_only_query import find_end_of_common_tables
from gateway.sql_relations import find_sql

Relation = relations_pb2.Relation

MAX_SCANS = 8
"""The maximum number of scans of a statement whose files are counted. Each of them takes Spark about half a second."""

_WITHOUT_JOBS = frozenset(
    {
        *("aggregate", "deduplicate", "drop", "fill_na", "filter", "hint", "join", "limit", "local_relation", "offset"),
        *("project", "range", "read", "repartition", "repartition_by_expression", "sample", "set_op", "sort", "sql"),
        *("subquery_alias", "tail", "to_df", "to_schema", "with_columns", "with_columns_renamed", "with_relations"),
    }
)
"""The relations that Spark analyzes without a job. It runs jobs to analyze others, such as ``crosstab``."""


log = structlog.get_logger(__name__)


async def count_pruned_files(
    statement: Relation, scans: Sequence[ScanSummary], backend: BackendSession, dialect: Dialect
) -> Sequence[ScanSummary]:
    """Return the summaries of scans with the files that conditions exclude, where Spark can count them.

    Args:
        statement: The explained query, or the statement ``EXPLAIN``. Its names are resolved and its scans are planned.
        scans: The summaries of its scans.
        backend: The session of the statement.
        dialect: The dialect of the SQL texts in the statement.
    """
    if statement.ByteSize() > MAX_BYTES or _may_run_command(_copy_query(statement, dialect), dialect):
        return scans
    found = []
    asked = 0
    for scan in scans:
        if not _has_path_columns(scan.of_engine):
            found.append(scan.with_pruned_files(0, 0))
        elif SINGLE_USE not in scan.of_engine.options:  # filters are pushed down to Spark's own reader only
            found.append(scan.with_pruned_files(0, 0) if scan.is_of_engine else scan)
        elif scan.of_engine.schema and asked < MAX_SCANS:  # without a schema, Spark would discover it again
            asked += 1
            found.append(await _count(_copy_for_count(statement, scan, dialect), scan, backend))
        else:
            found.append(scan)
    return found


async def _count(query: Relation, scan: ScanSummary, backend: BackendSession) -> ScanSummary:
    """Return the summary with the files that are excluded from the scan with the task in a query.

    Spark optimizes the query to list its input files, and reads nothing.
    """
    try:
        await backend.list_input_files(query)
    except BackendError as error:
        report = find_scan_report(error.error)
        if report is not None and report.condition == PrunedFilesReport.condition:
            with suppress(KeyError, ValueError):
                return scan.with_counted_files(int(report.parameters[FILES]), int(report.parameters[BYTES]))
        log.debug("pruned_files_not_counted", scan=scan.name, reason=error.error.details())
        return scan
    return scan.with_counted_files(0, 0)


def _has_path_columns(source: relations_pb2.Read.DataSource) -> bool:
    return PLANNED not in source.options or IMPLICIT in source.schema


def _copy_for_count(statement: Relation, scan: ScanSummary, dialect: Dialect) -> Relation:
    """Return a copy of a statement in which the engine counts the files of one scan that are excluded."""
    planned = Relation()
    planned.CopyFrom(scan.relation)
    scan.relation.read.data_source.CopyFrom(scan.of_engine)
    scan.relation.read.data_source.options[TASK] = COUNT_PRUNED
    sign_scan(scan.relation.read.data_source)
    query = _copy_query(statement, dialect)
    scan.relation.CopyFrom(planned)
    return query


def _copy_query(statement: Relation, dialect: Dialect) -> Relation:
    """Return a copy of a statement without the word ``EXPLAIN``."""
    query = Relation()
    query.CopyFrom(statement)
    sql = find_sql(query)
    if sql is not None:
        words = skip_explain(_first_words(sql.query, dialect))
        sql.query = sql.query[words[0].start :] if words else ""
    return query


def _may_run_command(message: Message, dialect: Dialect) -> bool:
    """Return whether Spark may execute a command, or run a job, when it analyzes a query.

    A SQL text contains no command if it begins with ``SELECT``, perhaps after common table expressions.
    """
    if isinstance(message, Relation):
        kind = message.WhichOneof("rel_type")
        if kind not in _WITHOUT_JOBS or message.aggregate.HasField("pivot"):
            return True
        if kind == "sql" and not _is_query(message.sql.query, dialect):
            return True
    return any(_may_run_command(part, dialect) for part in find_parts(message))


def _is_query(text: str, dialect: Dialect) -> bool:
    cursor = Cursor(text, dialect)
    start = find_end_of_common_tables(cursor) if cursor.keyword() == "WITH" else 0
    first = None if start is None else cursor.at(start)
    return first is not None and first.keyword == "SELECT" and VARIABLE_START not in text


def _first_words(text: str, dialect: Dialect) -> Sequence[Token]:
    return list(islice(iterate_tokens(text, dialect), 3))
