"""A temporary table beside a table of Spark: the same definition, the same statements, and what both must have."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

_SPARK_TABLE = "table_of_spark"


class SparkPair:
    """A temporary table and a table of Spark with the same definition.

    Args:
        client: The session, in which Spark's table is created too.
    """

    def __init__(self, client) -> None:
        self._client = client

    @contextmanager
    def tables(self, definition: str) -> Iterator[None]:
        """Create both tables: ``(columns) using …``."""
        self._client.run(f"drop table if exists {_SPARK_TABLE}")
        self._client.run(f"create table {_SPARK_TABLE} {definition}")
        self._client.run(f"create temporary table t {definition}")
        try:
            yield
        finally:
            self._client.run(f"drop table {_SPARK_TABLE}")
            self._client.run("drop table t")

    def run(self, text: str) -> str | None:
        """Run a statement on each table, whose name is ``{t}`` in the text.

        Returns:
            The condition of the error, which both have. None without an error.
        """
        found, expected = (outcome(self._client.run, text.format(t=name)) for name in ("t", _SPARK_TABLE))
        assert found == expected, (text, found, expected)
        return expected

    def compare(self, described: object = None) -> None:
        """Check that both tables have the same rows and the same columns."""
        found, expected = (
            sorted(map(repr, self._client.rows(f"select * from {name}"))) for name in ("t", _SPARK_TABLE)
        )
        assert found == expected, (described, found, expected)
        columns, of_spark = self._columns("t"), self._columns(_SPARK_TABLE)
        assert columns == of_spark, (columns, of_spark)

    def _columns(self, name: str) -> object:
        """Return the columns of a table, without the values that Spark computes from the default values."""
        columns = self._client.spark.table(name).schema.jsonValue()["fields"]
        for column in columns:
            column["metadata"].pop("EXISTS_DEFAULT", None)
        return columns


def outcome(run: Callable[[str], object], text: str) -> str | None:
    """Return the condition of the error with which a statement fails. None if it succeeds."""
    try:
        run(text)
    except PySparkException as error:
        return error.getCondition()
    return None
