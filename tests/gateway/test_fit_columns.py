"""The columns of an insertion."""

import pytest
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.types import LongType, StructField, StructType

from gateway.backends.session_settings import SessionSettings
from gateway.errors import SparkError
from gateway.tables.insertions import Insertion, fit_columns
from tests.gateway.thread_time import least_thread_seconds


def insert(columns: list[str]) -> None:
    table = StructType([StructField(f"c{number}", LongType()) for number in range(len(columns))])
    fit_columns(Insertion("t", relations_pb2.Relation(), columns), table, table, SessionSettings())


def seconds_until_refused(count: int) -> float:
    columns = [f"c{number}" for number in range(count - 1)]

    def refuse() -> None:
        with pytest.raises(SparkError, match="lists a column twice") as raised:
            insert([*columns, columns[-1]])
        assert raised.value.parameters["columnName"] == f"`{columns[-1]}`"

    return least_thread_seconds(refuse, 3)


def test_column_that_is_listed_twice_is_found_in_linear_time() -> None:
    """Eight times the columns take about eight times as long. Quadratic time would be 64 times as long."""
    assert seconds_until_refused(8000) < 30 * max(seconds_until_refused(1000), 0.0005)
