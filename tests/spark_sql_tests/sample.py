"""The files that a test runs in each way. They contain most kinds of statements, and take less than a minute."""

from collections.abc import Mapping, Sequence

from tests.spark_sql_tests.ways import AS_IS, TABLES, VIEWS

SAMPLE: Mapping[str, Sequence[str]] = {
    AS_IS: ("describe.sql",),
    VIEWS: ("null-handling.sql",),
    TABLES: ("change-column.sql",),
}
