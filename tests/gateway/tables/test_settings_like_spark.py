"""Temporary tables under all settings of Spark that concern files, and tables of Spark under the same settings.

The page docs/reference/table-settings.md has the effect of each setting. A new setting of Spark makes a test fail.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from tests.gateway.tables.table_settings import documented_effects, running_settings, values

EXACT = ("no effect on values", "fixed")
LIKE_SPARK = "as for a table of Spark"
REFUSED = "refused"
GROUPS = 8
"""The number of groups of settings. Settings with similar names, which may hide each other, are in different groups."""

EVERYWHERE = (
    "cast(1 as tinyint)",
    "cast(1 as smallint)",
    "1",
    "1L",
    "1.5f",
    "double('nan')",
    "double('-infinity')",
    "-0.0d",
    "cast(1.23 as decimal(38,18))",
    "cast(-99999999999999999999999999999999999999 as decimal(38,0))",
    "true",
    "'text'",
    "''",
    "' lead, trail '",
    "'a\\nb\\r\\nc\\td'",
    '\'"q""\'',
    "'\\\\'",
    "'null'",
    "'\\u0000x'",
    "'😀'",
    "cast(null as string)",
    "cast(null as timestamp)",
    "cast('ab' as char(5))",
    "cast('ab' as varchar(5))",
    "date'2020-02-29'",
    "date'0001-01-01'",
    "date'9999-12-31'",
    "timestamp'1800-01-01 00:00:00.123456'",
    "timestamp'1883-11-18 12:03:57'",
    "timestamp'0001-01-02 00:00:00'",
    "timestamp'2024-11-03 01:30:00-05:00'",
    "timestamp'2024-11-03 01:30:00-04:00'",
    "timestamp_ntz'1900-01-01 00:00:00.000001'",
    "timestamp_ntz'0001-01-01 00:00:00'",
    "interval '1-2' year to month",
    "interval '-1 02:03:04.5' day to second",
)
NESTED = (
    "array(1, null, 3)",
    "array('', null)",
    "map('k', 1, 'l', null)",
    "named_struct('a', 1, 'B b', array(named_struct('c', 'x')))",
    "cast(null as struct<a:int>)",
    "named_struct('a', cast(null as int))",
    "array(X'01')",
)
ONLY = {
    "parquet": ["null", "array()", "parse_json('{\"a\":[1]}')", "X'00FF'", "'a' collate unicode_ci", "map(1, 'x')"],
    "orc": ["X'00FF'", "X''", "map(1, 'x')"],
    "json": ["null", "X'00FF'", "X''", "parse_json('{\"a\":[1]}')", "'a' collate unicode_ci"],
    "csv": ["'a' collate unicode_ci"],
}
OLD = (
    "date'1582-10-04'",
    "date'1582-10-15'",
    "date'1500-03-01'",
    "timestamp_micros(-14831769600000001)",
    "timestamp_micros(-2208988800000001)",
    "timestamp_ntz'1300-02-28 23:59:59.999999'",
)
BETWEEN_CALENDARS = ("date'1582-10-10'", "timestamp_micros(-12219724800000000)", "timestamp_micros(-12219292800000001)")
TEXTS = ("'NaN'", "'\\\\N'", "'#x'", "'1'", "'2020-01-01'")
EMPTY_ARRAY = "array()"
"""A constant whose type depends on settings."""
PARTITIONS = (
    "1",
    "7L",
    "cast(1 as tinyint)",
    "'01'",
    "'1e5'",
    "'a b/c=%d'",
    "'null'",
    "'2020-01-01'",
    "date'1500-03-01'",
    "timestamp_micros(-12219292800000001)",
    "timestamp'2024-11-03 01:30:00-04:00'",
    "timestamp_micros(1710037800000000)",
    "timestamp_ntz'2024-03-10 02:30:00'",
    "true",
    "cast(1.50 as decimal(5,2))",
    "1.5d",
    "1.25f",
)
FIELDS = (("a", IntegerType()), ("b", StringType()))
SHOWN = {
    "null": "cast({} as string)",
    "parse_json('{\"a\":[1]}')": "to_json({})",
    "interval '1-2' year to month": "cast(cast({} as interval month) as int)",
}
"""The expressions of values that Arrow cannot represent."""


@dataclass(frozen=True)
class Scenario:
    """A table, insertions, and what a query shows of the table."""

    definition: str
    statements: Sequence[str] = ()
    shown: str = "*"


_INSTANTS = (
    "(-14831769600000000, -171499), (1600000000123456, 18000), (-2208988800000001, -25567), "
    "(-12219724800000000, -141432)"
)


def times(storage: str) -> Scenario:
    """Return a table with dates and timestamps. Spark's own tables in text files have no microseconds."""
    instant = "x" if storage in {"parquet", "orc"} else "x - pmod(x, 1000000)"
    found = f"select timestamp_micros({instant}), date_from_unix_date(y) from values {_INSTANTS} as v(x, y)"
    return Scenario(
        f"(t timestamp, d date) using {storage}", [f"insert into {{t}} {found}"], "unix_micros(t), string(d)"
    )


_CHARS = Scenario(
    "(a char(3), b varchar(3)) using parquet",
    [
        "insert into {t} values ('a', 'b')",
        "insert into {t} values ('abcd', 'b')",
        "insert into {t} values ('a', 'bcde')",
    ],
    "a, b, length(a), a = 'a'",
)
_CASTS = Scenario(
    "(a int, b string) using parquet",
    [
        "insert into {t} values (1, 'x')",
        "insert into {t} values ('x', 1)",
        "insert into {t} values (99999999999, 'y')",
        "insert into {t} values (2)",
        "insert into {t} (a) values (3)",
    ],
)
_VARIANTS = Scenario(
    "(a variant) using parquet",
    [
        "insert into {t} select parse_json(concat('{\"a\": ', id, ', \"b\": [1]}')) from range(3)",
        "insert into {t} select null",
    ],
    "to_json(a)",
)
_FIELD_IDS = Scenario("using parquet as select * from with_field_ids", ["insert into {t} select 5, 'e'"], "*")
_TYPED = ["insert into {t} select * from {t}"]

SCENARIOS: Mapping[str, Sequence[Scenario]] = {
    "ansi.enabled": [_CASTS],
    "caseSensitive": [Scenario("(a int, `A` string) using parquet", ["insert into {t} values (1, 'x')"])],
    "charAsVarchar": [_CHARS, Scenario("(a struct<x: char(3)>) using json", ["insert into {t} values (struct('a'))"])],
    "decimalOperations.allowPrecisionLoss": [
        Scenario("using orc as select cast(1 as decimal(38,18)) / cast(3 as decimal(38,18)) a", _TYPED)
    ],
    "defaultColumn.enabled": [
        Scenario(
            "(a int, b string) using parquet", ["insert into {t} values (1, default)", "insert into {t} (a) values (1)"]
        )
    ],
    "defaultColumn.useNullsForMissingDefaultValues": [_CASTS],
    "jsonGenerator.writeNullIfWithDefaultValue": [
        Scenario(
            "(a int, b string default 'd') using json",
            ["insert into {t} values (1, null)", "insert into {t} (a) values (2)"],
        )
    ],
    "legacy.allowEmptySchemaWrite": [
        Scenario(f"using {storage} as select 1 a, named_struct() b") for storage in ("parquet", "orc", "json", "csv")
    ],
    "legacy.allowNegativeScaleOfDecimal": [
        Scenario(f"using {storage} as select 1E10BD a") for storage in ("parquet", "orc", "json", "csv")
    ],
    "legacy.exponentLiteralAsDecimal.enabled": [Scenario("using parquet as select 1E3 a", _TYPED)],
    "legacy.interval.enabled": [Scenario("using parquet as select interval '1' day a")],
    "legacy.noCharPaddingInPredicate": [_CHARS],
    "legacy.timeParserPolicy": [times("json"), times("csv")],
    "orc.impl": [
        times("orc"),
        Scenario("using orc as select timestamp_ntz'2020-01-01' n"),
    ],
    "parquet.binaryAsString": [
        Scenario("(a binary) using parquet", ["insert into {t} values (X'00ff')"], "hex(a)"),
        _VARIANTS,
    ],
    "parquet.datetimeRebaseModeInWrite": [times("parquet")],
    "parquet.fieldId.read.enabled": [_FIELD_IDS],
    "parquet.fieldId.read.ignoreMissing": [_FIELD_IDS],
    "parquet.fieldId.write.enabled": [_FIELD_IDS],
    "parquet.ignoreVariantAnnotation": [_VARIANTS],
    "parquet.int96RebaseModeInWrite": [times("parquet")],
    "parquet.outputTimestampType": [times("parquet")],
    "sources.partitionOverwriteMode": [
        Scenario(
            "(a int, p int) using parquet partitioned by (p)",
            ["insert into {t} values (1, 1), (2, 2)", "insert overwrite {t} values (3, 1)"],
        )
    ],
    "sources.useV1SourceList": [
        *(
            Scenario(
                f"(a int, b string default 'x') using {storage}",
                ["insert into {t} values (1, 'y')", "insert into {t} (a) values (2)"],
            )
            for storage in ("parquet", "orc", "json", "csv")
        ),
        Scenario("(a int, p string) using parquet partitioned by (p)", ["insert into {t} values (1, 'x'), (2, '01')"]),
    ],
    "storeAssignmentPolicy": [_CASTS],
    "timeType.enabled": [
        Scenario(f"using {storage} as select time'12:00:00.123456' a", _TYPED)
        for storage in ("parquet", "orc", "json", "csv")
    ],
    "timestampType": [
        Scenario("(a timestamp) using parquet", ["insert into {t} values ('2020-01-01 00:00:00')"], "a, typeof(a)"),
        Scenario("using orc as select timestamp'2020-01-01' a", _TYPED, "a, typeof(a)"),
    ],
    "variant.allowReadingShredded": [_VARIANTS],
    "variant.forceShreddingSchemaForTest": [_VARIANTS],
}
"""Statements whose effect on a temporary table is that on a table of Spark, by setting without ``spark.sql.``."""

REFUSALS: Mapping[str, Sequence[Sequence[str]]] = {
    "fileSource.insert.enforceNotNull": [["create temporary table t (a int not null)"]],
    "legacy.keepPartitionSpecAsStringLiteral": [
        [
            "create temporary table t (a int, p string) partitioned by (p)",
            "insert overwrite t partition (p = 05) select 1",
        ]
    ],
    "legacy.parseNullPartitionSpecAsStringLiteral": [
        [
            "create temporary table t (a int, p string) partitioned by (p)",
            "insert overwrite t partition (p = null) select 1",
        ]
    ],
    "preserveCharVarcharTypeInfo": [
        ["create temporary table t (a struct<x: char(3)>)", "insert into t values (named_struct('x', 'a'))"]
    ],
    "sources.useV1SourceList": [["create temporary table t as select null a"]],
    "timestampNanosTypes.enabled": [["create temporary table t (a timestamp_ntz(9))"]],
}
"""Statements of which the last one is refused with a setting."""
OTHER_TESTS = {"legacy.charVarcharAsString": "test_char_is_string_if_the_setting_says_so"}
REFUSED_VALUES = {"sources.useV1SourceList": ""}
"""The values of settings that are not Boolean."""


def expressions(table: str) -> Sequence[str]:
    if table == "partitioned":
        return PARTITIONS
    found = [*EVERYWHERE, *OLD, *TEXTS, *(() if table == "csv" else NESTED), *ONLY[table]]
    found += [] if table == "orc" else BETWEEN_CALENDARS
    return [each for each in found if each != EMPTY_ARRAY]


class StoredValues:
    """Tables of each format with values of all types, that are written and read with different settings.

    Args:
        client: The session.
    """

    def __init__(self, client) -> None:
        self._client = client
        self._expected: dict[str, Mapping[str, str]] = {}
        self._columns = {
            table: [f"c{number}" for number in range(len(expressions(table)))]
            for table in ("parquet", "orc", "json", "csv", "partitioned")
        }
        for table, columns in self._columns.items():
            made = expressions(table)
            given = ", ".join(f"{value} {name}" for name, value in zip(columns, made, strict=True))
            nulls = ", ".join(
                f"if(isnull({value}), {value}, null) {name}" for name, value in zip(columns, made, strict=True)
            )
            client.spark.sql(f"select 1 n, {given} union all select 2 n, {nulls}").createOrReplaceTempView(
                f"made_{table}"
            )
            self._create("base", table)
            self._check_base(table)
            self._insert("base", table)
            self._expected[table] = self._read("base", table)

    def problems(self, settings: Mapping[str, str]) -> list[object]:
        """Write and read tables with settings, and read them without. Return what differs."""
        found: list[object] = []
        written = []
        with set_to(self._client, settings):
            for table in self._columns:
                try:
                    self._create("new", table)
                    written.append(table)
                    self._insert("new", table)
                except PySparkException as error:
                    found.append((table, str(error)[:500]))
                    continue
                found += [(name, table, self._differences(name, table)) for name in ("base", "new")]
        for table in written:
            found.append(("new without settings", table, self._differences("new", table)))
            self._client.run(f"drop table new_{table}")
        return [each for each in found if each[-1]]

    def _create(self, name: str, table: str) -> None:
        columns = self._columns[table]
        clause = f"parquet partitioned by ({', '.join(columns)})" if table == "partitioned" else table
        self._client.run(f"create temporary table {name}_{table} using {clause} as select * from made_{table}")

    def _insert(self, name: str, table: str) -> None:
        self._client.run(f"insert into {name}_{table} select * from made_{table}")

    def _check_base(self, table: str) -> None:
        """Check that the new table has the values, as texts in the default settings."""
        kinds = dict(self._client.spark.table(f"base_{table}").dtypes)
        exact = {"timestamp": "unix_micros({})", "binary": "hex({})"}
        texts = ", ".join(exact.get(kinds[name], "string({})").format(name) for name in self._columns[table])
        stored, made = (
            self._client.rows(f"select {texts} from {name}_{table} order by n") for name in ("base", "made")
        )
        assert stored == made, [pair for pair in zip(stored, made, strict=True) if pair[0] != pair[1]]

    def _read(self, name: str, table: str) -> Mapping[str, str]:
        """Return the type and the values of each column. Arrow does not depend on settings."""
        pairs = zip(self._columns[table], expressions(table), strict=True)
        shown = ", ".join(f"{SHOWN.get(value, '{}').format(column)} {column}" for column, value in pairs)
        found = self._client.spark.sql(f"select n, {shown} from {name}_{table} order by n").toArrow()
        return {
            column: f"{kind_of(column_type)} {found[column].combine_chunks().to_string(window=10)}"
            for column, column_type in zip(found.schema.names, found.schema.types, strict=True)
        }

    def _differences(self, name: str, table: str) -> object:
        try:
            found = self._read(name, table)
        except PySparkException as error:
            return str(error)[:500]
        labels = {"n": "n", **dict(zip(self._columns[table], expressions(table), strict=True))}
        expected = self._expected[table]
        return {labels[key]: (found[key], expected[key]) for key in expected if found[key] != expected[key]}


def kind_of(column_type: object) -> str:
    """Return the name of an Arrow type without its time zone, which is that of the session."""
    return str(column_type).partition(", tz=")[0]


@contextmanager
def set_to(client, settings: Mapping[str, str]) -> Iterator[None]:
    try:
        for key, value in settings.items():
            client.set(key, value)
        yield
    finally:
        for key in settings:
            client.unset(key)


@pytest.fixture(scope="module")
def settings() -> Mapping[str, str]:
    return running_settings()


@pytest.fixture(scope="module")
def stored_values(lodge, new_client) -> StoredValues:
    return StoredValues(new_client(lodge))


def test_page_has_each_setting_of_the_running_spark(settings):
    effects = documented_effects()
    assert {key: settings[key] for key in settings.keys() - effects.keys()} == {}, "add them to the page"
    assert effects.keys() - settings.keys() == set(), "remove them from the page"
    assert set(effects.values()) == {*EXACT, LIKE_SPARK, REFUSED}
    assert [key for key, default in settings.items() if not values(key, default)] == []
    tried = {f"spark.sql.{key}" for key in (*SCENARIOS, *REFUSALS, *OTHER_TESTS)}
    assert tried == {key for key, effect in effects.items() if effect not in EXACT}


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_settings_leave_values_as_they_are(settings, stored_values, group):
    effects = documented_effects()
    pairs = [(key, value) for key in sorted(effects) if effects[key] in EXACT for value in values(key, settings[key])][
        group::GROUPS
    ]
    assert len(dict(pairs)) == len(pairs), "a group has a setting twice"
    problems = stored_values.problems(dict(pairs))
    if problems:
        single = {pair: stored_values.problems(dict([pair])) for pair in pairs}
        assert {pair: found for pair, found in single.items() if found} == {}
    assert problems == []


class Pair:
    """A temporary table and a table of Spark that the same statements create and change."""

    def __init__(self, client) -> None:
        self._client = client

    def run(self, text: str) -> object:
        """Run a statement for each table, whose name is ``{t}``. Return the condition of the error that both have."""
        found, expected = (
            self._outcome(lambda name=name: self._client.run(text.replace("{t}", name))) for name in ("t", "s")
        )
        assert found == expected, (text, found, expected)
        return expected

    def create(self, definition: str) -> bool:
        """Create both tables. Return whether they exist."""
        created = [
            self._outcome(lambda kind=kind, name=name: self._client.run(f"create {kind} {name} {definition}"))
            for kind, name in (("temporary table", "t"), ("table", "s"))
        ]
        assert (created[0] is None) == (created[1] is None), (definition, created)
        return created[0] is None

    def compare(self, shown: str, when: object) -> None:
        """Check that a query shows the same of both tables."""
        found, expected = (
            self._outcome(lambda name=name: sorted(map(repr, self._client.rows(f"select {shown} from {name}"))))
            for name in ("t", "s")
        )
        assert found == expected, (when, found, expected)
        kinds, of_spark = (
            self._outcome(lambda name=name: self._client.spark.table(name).dtypes) for name in ("t", "s")
        )
        assert kinds == of_spark, (when, kinds, of_spark)

    def drop(self) -> None:
        for name in ("t", "s"):
            self._client.run(f"drop table if exists {name}")

    @staticmethod
    def _outcome(run: Callable[[], object]) -> object:
        try:
            return run()
        except PySparkException as error:
            return "error", error.getCondition()


@pytest.mark.slow
@pytest.mark.parametrize("key", SCENARIOS)
def test_setting_has_the_effect_that_it_has_on_a_table_of_spark(client, settings, key):
    name = f"spark.sql.{key}"
    pair = Pair(client)
    schema = StructType([StructField(c, k, True, {"parquet.field.id": i}) for i, (c, k) in enumerate(FIELDS, 7)])
    client.spark.createDataFrame([(1, "x")], schema).createOrReplaceTempView("with_field_ids")
    for value, scenario in itertools.product(values(name, settings[name]), SCENARIOS[key]):
        changed = {name: value}
        try:
            with set_to(client, changed):
                if not pair.create(scenario.definition):
                    continue
                for text in scenario.statements:
                    pair.run(text)
                pair.compare(scenario.shown, (value, "written and read with the setting"))
            pair.compare(scenario.shown, (value, "written with the setting"))
            for text in scenario.statements:
                pair.run(text)
            pair.compare(scenario.shown, (value, "written with and without the setting"))
            with set_to(client, changed):
                pair.compare(scenario.shown, (value, "read with the setting"))
        finally:
            pair.drop()


@pytest.mark.parametrize("key", REFUSALS)
def test_statement_that_would_differ_from_spark_is_refused(client, key):
    for statements in REFUSALS[key]:
        with set_to(client, {f"spark.sql.{key}": REFUSED_VALUES.get(key, "true")}):
            for text in statements[:-1]:
                client.run(text)
            with pytest.raises(PySparkException):
                client.run(statements[-1])


def test_char_is_string_if_the_setting_says_so(client):
    """A table of Spark remembers the lengths, and checks them when the setting is false again."""
    with set_to(client, {"spark.sql.legacy.charVarcharAsString": "true"}):
        client.run("create temporary table t (a char(3), b varchar(3))")
        client.run("insert into t values ('a', 'bcde')")
        assert client.rows("select * from t") == [("a", "bcde")]
    client.run("insert into t values ('abcd', 'x')")
    assert client.contents("t") == [[("a", "bcde"), ("abcd", "x")]]


@pytest.mark.parametrize(
    ("key", "value", "storage"),
    [
        ("parquet.outputTimestampType", "TIMESTAMP_MILLIS", "parquet"),
        ("parquet.datetimeRebaseModeInWrite", "LEGACY", "parquet"),
        ("legacy.timeParserPolicy", "LEGACY", "json"),
    ],
)
def test_rows_are_not_rewritten_while_a_setting_changes_their_times(client, key, value, storage):
    client.run(f"create temporary table t using {storage} as select 1 a, timestamp'2020-01-01 00:00:00.123456' b")
    with set_to(client, {f"spark.sql.{key}": value}):
        for text in ("delete from t where a = 2", "update t set a = 2"):
            client.refuses(text, "LODGE_TEMPORARY_TABLE_OPERATION", "0A000", f"spark.sql.{key}")
    client.run("update t set a = 2")
    assert client.rows("select a, unix_micros(b) % 1000000 from t") == [(2, 123456)]


def test_rows_are_not_hidden_by_settings(client):
    client.run("create temporary table t as select 1 a")
    with set_to(client, {"spark.sql.files.ignoredPathSegmentRegex": "^part"}):
        client.run("insert into t values (2)")
        client.run("update t set a = a + 10")
        assert client.contents("t") == [[(11,), (12,)]]
    assert client.contents("t") == [[(11,), (12,)]]


def test_missing_file_is_an_error_in_each_setting(client):
    client.run("create temporary table t as select 1 a")
    with set_to(client, {"spark.sql.files.ignoreMissingFiles": "true", "spark.sql.files.ignoreCorruptFiles": "true"}):
        client.run("insert into t values (2)")
        for path in client.location.rglob("part-*"):
            path.write_bytes(b"no Parquet file")
        with pytest.raises(PySparkException):
            client.rows("select * from t")
        for path in client.location.rglob("part-*"):
            path.unlink()
        with pytest.raises(PySparkException):
            client.rows("select * from t")


def test_partition_in_a_skipped_hour_is_replaced(client):
    """In New York, the hour from 2 to 3 did not exist on March 10, 2024."""
    client.run("create temporary table t (a int, p timestamp) partitioned by (p)")
    values = "timestamp_micros(1710037800000000)"  # 2:30 in UTC
    client.run(f"insert into t values (1, {values}), (2, timestamp'2024-01-01')")
    with set_to(
        client,
        {"spark.sql.session.timeZone": "America/New_York", "spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ):
        client.run(f"insert overwrite t values (3, {values})")
    assert client.contents("(select a from t)") == [[(2,), (3,)]]
