"""Adds what is known about scans to Spark's answers to ``EXPLAIN``."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.connect.proto import base_pb2

from gateway.backends.backend_answers import decode_answer
from gateway.backends.backend_rows import BackendRowsError, decode_rows, is_text
from gateway.errors import GatewayError
from gateway.operations.responses import Response, build_row_response, build_sql_response
from gateway.scans.scan_summary import ScanSummary, describe_scans

_PLAN_COLUMN = "plan"
_MAX_LINES = 10_000
"""Spark writes a plan as one row, and an error as one row for each of its lines."""


async def add_scans_to_analysis(answer: bytes, scans: Sequence[ScanSummary], address: str) -> bytes:
    """Return the answer to ``DataFrame.explain`` with a text about its scans.

    Return any other answer unchanged, and one that cannot be decoded.

    Args:
        answer: An encoded ``AnalyzePlanResponse``.
        scans: The scans.
        address: The address of the backend.
    """
    try:
        message = await decode_answer(base_pb2.AnalyzePlanResponse, answer, address)
    except GatewayError:
        return answer
    if not message.HasField("explain"):
        return answer
    message.explain.explain_string += describe_scans(scans)
    return message.SerializeToString()


def copy_explanation(answer: Response) -> Response:
    """Return the answer to the statement ``EXPLAIN`` with rows that Lodge has built.

    Raises:
        BackendRowsError: If the answer has no such rows, or more than Spark writes for a plan or an error.
    """
    data = answer.sql_command_result.relation.local_relation.data
    lines = decode_rows(data, {_PLAN_COLUMN: is_text}, max_rows=_MAX_LINES)
    return build_sql_response(pa.table({_PLAN_COLUMN: pa.array([line[_PLAN_COLUMN] for line in lines], pa.string())}))


def add_scans_to_rows(answer: Response, scans: Sequence[ScanSummary]) -> Response:
    """Return the answer to the statement ``EXPLAIN`` with a text about its scans.

    Args:
        answer: The answer of Spark, a table with one row and the column ``plan``. If Spark has stored a long answer
            instead of sending it, if its rows are the lines of an error, or if it is not such a table, the answer is
            returned unchanged.
        scans: The scans.
    """
    relation = answer.sql_command_result.relation
    if not relation.HasField("local_relation"):
        return answer
    try:
        plans = decode_rows(relation.local_relation.data, {_PLAN_COLUMN: is_text}, max_rows=1)
    except BackendRowsError:
        return answer
    if not plans or plans[0][_PLAN_COLUMN] is None:
        return answer
    return build_row_response({_PLAN_COLUMN: plans[0][_PLAN_COLUMN] + describe_scans(scans)})
