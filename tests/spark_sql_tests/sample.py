"""The files that a test runs in each way. They contain most kinds of statements, and take less than a minute."""

from collections.abc import Mapping, Sequence

from tests.spark_sql_tests.ways import AS_IS, TABLES, VIEWS

SAMPLE: Mapping[str, Sequence[str]] = {
    AS_IS: (
        "describe.sql",
        "describe-query.sql",
        "explain.sql",
        "non-excludable-rule.sql",
        "session-variable-precedence.sql",
        "show-tables.sql",
        "show-tblproperties.sql",
        "tablesample-negative.sql",
    ),
    VIEWS: (
        "describe.sql",
        "natural-join.sql",
        "pivot.sql",
        "subquery/in-subquery/in-with-cte.sql",
    ),
    TABLES: (
        "describe-query.sql",
        "explain.sql",
        "session-variable-precedence.sql",
        "show-tblproperties.sql",
        "to_from_avro.sql",
    ),
}
