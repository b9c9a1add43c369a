"""The objects of the Spark server that all sessions share: the test tables, and what a file leaves behind."""

import shutil
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from pyspark.sql.connect.session import SparkSession

from gateway.sql.name_syntax import quote_name
from tests.spark_sql_tests.outcomes import run_statement

_ONEK_COLUMNS = (
    "unique1 int, unique2 int, two int, four int, ten int, twenty int, hundred int, thousand int, twothousand int, "
    "fivethous int, tenthous int, odd int, even int, stringu1 string, stringu2 string, string4 string"
)
_DATA_TABLES = {
    "aggtest": ("agg.data", "a int, b float"),
    "onek": ("onek.data", _ONEK_COLUMNS),
    "tenk1": ("tenk.data", _ONEK_COLUMNS),
}
_QUERY_TABLES = {
    "testdata": "select /*+ repartition(1) */ cast(id as int) key, cast(id as string) value from range(1, 101)",
    "arraydata": "select * from values (array(1, 2, 3), array(array(1, 2, 3))), (array(2, 3, 4), array(array(2, 3, "
    "4))) as t(arraycol, nestedarraycol)",
    "mapdata": "select * from values (map(1, 'a1', 2, 'b1', 3, 'c1', 4, 'd1', 5, 'e1')), (map(1, 'a2', 2, 'b2', 3, "
    "'c2', 4, 'd2')), (map(1, 'a3', 2, 'b3', 3, 'c3')), (map(1, 'a4', 2, 'b4')), (map(1, 'a5')) as t(mapcol)",
}
_SYSTEM_SCHEMAS = frozenset({"default", "global_temp", "information_schema"})


class ServerObjects:
    """The shared objects of a Spark server.

    Args:
        spark: A session at the server, without Lodge.
        data: The directory of the data of the test tables.
    """

    def __init__(self, spark: SparkSession, data: Path) -> None:
        self._spark = spark
        self._warehouse = Path(url2pathname(urlparse(spark.conf.get("spark.sql.warehouse.dir") or "").path))
        self._tables: frozenset[str] = frozenset()
        self._schemas, self._functions = _SYSTEM_SCHEMAS, frozenset[str]()
        self._create_test_tables(data)
        self._tables = frozenset(self._list("show tables in default", "tableName"))
        self._functions = frozenset(self._list("show user functions in default", "function"))
        self._schemas |= set(self._list("show schemas", "namespace"))
        self._directories = frozenset(self._warehouse.iterdir())

    def remove_leftovers(self) -> None:
        """Remove all objects except those that existed at first."""
        for schema in self._list("show schemas", "namespace"):
            if schema not in self._schemas:
                self._run(f"drop schema {quote_name(schema)} cascade")
        for view in self._list("show views in default", "viewName"):
            if view not in self._tables:
                self._run(f"drop view if exists default.{quote_name(view)}")
        for table in self._list("show tables in default", "tableName"):
            if table not in self._tables:
                self._run(f"drop table if exists default.{quote_name(table)}")
        for view in self._list("show views in global_temp", "viewName"):
            self._run(f"drop view if exists global_temp.{quote_name(view)}")
        for function in self._list("show user functions in default", "function"):
            if function not in self._functions:
                self._run(f"drop function if exists {function}")
        self._run("clear cache")
        for path in self._warehouse.iterdir():
            if path not in self._directories:
                shutil.rmtree(path)

    def remove_test_tables(self) -> None:
        """Remove the test tables too."""
        self.remove_leftovers()
        for table in (*_DATA_TABLES, *_QUERY_TABLES):
            self._run(f"drop table if exists default.{table}")

    def _create_test_tables(self, data: Path) -> None:
        for name, query in _QUERY_TABLES.items():
            self._spark.sql(f"create table {name} using parquet as {query}")
        for name, (file, columns) in _DATA_TABLES.items():
            rows = self._spark.read.csv(str(data / file), sep="\t", schema=columns)
            rows.write.format("parquet").saveAsTable(name)

    def _list(self, statement: str, column: str) -> list[str]:
        return [row[column] for row in self._spark.sql(statement).collect()]

    def _run(self, statement: str) -> None:
        run_statement(self._spark, statement)
