"""Values of every type of Spark, in every storage format and position, and as values of partition columns.

Each value is either exact, or refused when it is written, or changed as in a table of Spark. The reference lists the
last two.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tests.gateway.tables.spark_pair import SparkPair, outcome
from tests.gateway.tables.typed_values import (
    CHANGED,
    LONG,
    NOT_READ,
    NOT_WRITTEN,
    ONLY_AS_VALUES,
    PARTITION_TEXTS,
    ROWS,
    TEXTS,
    VALUES,
    column,
    exact_text,
    is_refused,
    literal,
    nested_values,
    places,
)
from tests.running.tiers import quick_first

FORMATS = ("parquet", "orc", "json", "csv")
SAMPLE = ("double", "string", "binary", "timestamp", "variant")
SETTINGS = {
    "spark.sql.collation.allowInMapKeys": "true",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.timeType.enabled": "true",
}
OTHER_ZONE = {"spark.sql.session.timeZone": "Asia/Kathmandu"}
WITH_EARLY_MERGES = """
import sys
from gateway.tables import part_merging, temporary_tables
from lodge.cli import main

part_merging.MAX_SMALL_PARTS = temporary_tables.MAX_SMALL_PARTS = 4
sys.exit(main())
"""
KEPT_FROM_PARTITIONS = ("void", "binary", "variant", "geo", "string collate", "string (not UTF-8)")
"""The beginnings of the names of types that partition columns cannot have, or whose values change."""


def exact_kinds(storage: str) -> Sequence[str]:
    """Return the types of which a format stores all values."""
    others = {*CHANGED[storage], *NOT_WRITTEN[storage], *NOT_READ[storage]}
    if storage == "csv":
        others.add("string (NULL of CSV)")
    return [kind for kind in VALUES if kind not in others]


def columns(storage: str, kinds: Sequence[str]) -> Mapping[str, str]:
    """Return the columns of a table with all values that a format stores, by what is in them."""
    return {
        f"{kind} as {position}": column(kind, position)
        for kind, position in places(kinds)
        if not is_refused(storage, kind, position)
    }


class Values:
    """A view with values, whose name is ``made``, and relations that must have the same values.

    Args:
        client: The session.
        columns: The expressions of the columns, which can name ``n``, the number of the row, by their labels.
        rows: The number of rows.
    """

    def __init__(self, client, columns: Mapping[str, str], rows: int = ROWS) -> None:
        self._client = client
        self.labels = {f"c{number}": label for number, label in enumerate(columns)}
        shown = ", ".join(f"{each} {name}" for name, each in zip(self.labels, columns.values(), strict=True))
        client.spark.sql(f"select n, {shown} from (select int(id) n from range({rows}))").createOrReplaceTempView(
            "made"
        )
        self._kinds = self._read_kinds("made")
        self._made = self._read("made")

    def check(self, relation: str, when: str = "") -> None:
        """Check that a relation has the types and the values of the view."""
        kinds = self._read_kinds(relation)
        assert {name: kind.simpleString() for name, kind in kinds.items()} == {
            name: kind.simpleString() for name, kind in self._kinds.items()
        }
        assert self.differences(relation) == {}, when

    def differences(self, relation: str, other: str = "") -> Mapping[str, object]:
        """Return the values of a relation that differ from those of another, by default the view."""
        found, expected = self._read(relation), self._read(other) if other else self._made
        assert len(found) == len(expected)
        pairs = zip(self.labels.values(), zip(*expected, strict=True), zip(*found, strict=True), strict=True)
        return {
            label: [pair for pair in zip(one, another, strict=True) if pair[0] != pair[1]]
            for label, one, another in pairs
            if one != another
        }

    def _read_kinds(self, relation: str) -> Mapping[str, object]:
        schema = self._client.spark.sql(f"select * from {relation}").schema
        return {name: schema[name].dataType for name in self.labels}

    def _read(self, relation: str) -> Sequence[Sequence[str]]:
        texts = ", ".join(exact_text(name, kind) for name, kind in self._kinds.items())
        return self._client.rows(f"select {texts} from {relation} order by n")


@contextmanager
def set_to(client, settings: Mapping[str, str]) -> Iterator[None]:
    before = {key: client.spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        client.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                client.unset(key)
            else:
                client.set(key, value)


@pytest.fixture
def typed_client(client):
    """Return a session with settings that allow all types."""
    with set_to(client, SETTINGS):
        yield client


def test_sample_of_values_is_stored_exactly_in_each_format(typed_client):
    for storage in FORMATS:
        values = Values(typed_client, columns(storage, SAMPLE))
        typed_client.run(f"create temporary table {storage} using {storage} as select * from made")
        values.check(storage)


@pytest.mark.slow
@pytest.mark.parametrize("storage", FORMATS)
def test_values_of_each_type_are_exact_in_each_position(typed_client, storage):
    values = Values(typed_client, columns(storage, exact_kinds(storage)))
    typed_client.run(f"create temporary table t using {storage} as select * from made")
    values.check("t", "created")
    with set_to(typed_client, OTHER_ZONE):
        typed_client.run("insert overwrite t select * from made")
    values.check("t", "inserted")
    typed_client.run("insert into t (n) values (-1)")
    with set_to(typed_client, OTHER_ZONE):
        typed_client.run("update t set n = -2 where n = -1")
    values.check("(select * from t where n >= 0)", "not updated")
    typed_client.run("truncate table t")
    typed_client.spark.table("made").writeTo("t").append()
    values.check("t", "appended")


@pytest.mark.slow
@pytest.mark.parametrize("storage", FORMATS)
def test_constants_are_stored_like_the_rows_of_a_query(typed_client, storage):
    kinds = [kind for kind in exact_kinds(storage) if kind not in ONLY_AS_VALUES]
    kinds = [kind for kind in kinds if not is_refused(storage, kind, "value") and kind != "void"]
    values = Values(typed_client, {kind: column(kind) for kind in kinds})
    typed_client.run(f"create temporary table t using {storage} as select * from made where false")
    rows = []
    for number in range(ROWS):
        constants = [VALUES[kind][number] if number < len(VALUES[kind]) else "null" for kind in kinds]
        rows.append(f"({number}, {', '.join(constants)})")
    typed_client.run(f"insert into t values {', '.join(rows)}")
    values.check("t")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("storage", ["parquet", "orc", "json"])
def test_values_nested_three_deep_are_exact(typed_client, storage, seed):
    kinds = [kind for kind in exact_kinds(storage) if not kind.startswith(("decimal", "void"))]
    kinds = [kind for kind in kinds if not is_refused(storage, kind, "element")]
    nested = nested_values([column(kind) for kind in kinds], seed, count=20)
    values = Values(typed_client, {f"seed {seed}: {each}": each for each in nested})
    typed_client.run(f"create temporary table t using {storage} as select * from made")
    values.check("t", "created")
    typed_client.run("insert overwrite t select * from made")
    values.check("t", "inserted")


@pytest.mark.slow
@pytest.mark.parametrize("storage", FORMATS)
def test_types_that_a_format_does_not_store_are_refused(typed_client, storage):
    refused = [place for place in places(VALUES) if is_refused(storage, *place)]
    if storage == "csv":  # all nested values are refused for the same reason
        refused = [(kind, position) for kind, position in refused if position == "value" or kind in SAMPLE]
    for kind, position in refused:
        typed_client.refuses(
            f"create temporary table t using {storage} as select n, {column(kind, position)} v from (select 1 n)",
            "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
            "0A000",
            "v",
        )


@pytest.mark.parametrize("storage", quick_first("orc", "json", "csv"))
def test_changed_values_are_those_of_a_table_of_spark(typed_client, storage):
    with set_to(typed_client, {"spark.sql.session.timeZone": "UTC"}):
        values = Values(typed_client, columns(storage, CHANGED[storage]))
        typed_client.run(f"create temporary table t using {storage} as select * from made")
        typed_client.run("drop table if exists table_of_spark")
        typed_client.run(f"create table table_of_spark using {storage} as select * from made")
        try:
            assert values.differences("t").keys() == set(values.labels.values())
            assert values.differences("t", "table_of_spark") == {}
        finally:
            typed_client.run("drop table table_of_spark")


@pytest.mark.parametrize("storage", ["json", "csv"])
def test_each_text_can_be_the_first_of_a_file(client, storage):
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate(TEXTS))
    made = f"select n, s from values {rows} v(n, s)"
    client.run(f"create temporary table t using {storage} as select /*+ repartition(64, n) */ n, s, s s2 from ({made})")
    assert client.sorted("select n, s, s2 from t") == [(number, text, text) for number, text in enumerate(TEXTS)]


def test_text_that_stands_for_null_in_csv_files_becomes_null(client):
    (text,) = VALUES["string (NULL of CSV)"]
    client.run(f"create temporary table t using csv as select {text} a, 'x' b")
    assert client.rows("select * from t") == [(None, "x")]


@pytest.mark.parametrize("storage", FORMATS)
def test_first_times_of_spark_are_stored_refused_or_unreadable(client, storage):
    """Tables of Spark in ORC files refuse the same ones. In text files, Spark shows NULL for those it cannot read."""
    for kind in ("date (first)", "timestamp (first)", "timestamp_ntz (first)"):
        query = f"using {storage} as select {VALUES[kind][0]} a"
        client.run("drop table if exists table_of_spark")
        created = outcome(client.run, f"create temporary table t {query}")
        assert created == outcome(client.run, f"create table table_of_spark {query}")
        assert created == ("TASK_WRITE_FAILED" if kind in NOT_WRITTEN[storage] else None), kind
        if created is None:
            found = outcome(client.rows, "select string(a) from t")
            assert found == ("FAILED_READ_FILE.NO_HINT" if kind in NOT_READ[storage] else None), kind
        client.run("drop table if exists t")
    client.run("drop table if exists table_of_spark")


@pytest.mark.parametrize("storage", quick_first("json", "parquet", "orc"))
def test_char_and_varchar_are_stored_as_by_spark(client, storage):
    nested = ", c struct<x: char(3)>, d array<varchar(3)>, e map<char(2), varchar(2)>"
    pair = SparkPair(client)
    with pair.tables(f"(a char(3), b varchar(3){nested}) using {storage}"):
        for text in ("", "x", "x  ", "é😀x", "xxx   ", "xxxx", "\\u0000"):
            more = f"named_struct('x', '{text}'), array('{text}', null), map('{text}', '{text}')"
            pair.run(f"insert into {{t}} values ('{text}', '{text}', {more})")
        pair.run("insert into {t} values (null, null, null, null, null)")
        pair.compare()


@pytest.mark.slow
@pytest.mark.parametrize("storage", FORMATS)
def test_values_of_partition_columns_are_exact(typed_client, storage):
    kinds = [k for k in VALUES if k != "interval" and not k.startswith(KEPT_FROM_PARTITIONS) and k != "string"]
    kinds = [kind for kind in kinds if kind not in ONLY_AS_VALUES] + sorted(ONLY_AS_VALUES)[::4]
    groups = [kinds[start::4] for start in range(4)]
    for group in groups:
        values = Values(typed_client, {kind: column(kind) for kind in group})
        names = ", ".join(values.labels)
        typed_client.run(f"create temporary table t using {storage} partitioned by ({names}) as select * from made")
        values.check("t", "created")
        with set_to(typed_client, OTHER_ZONE):
            typed_client.run("insert overwrite t select * from made")
        values.check("t", "inserted")
        with set_to(typed_client, OTHER_ZONE):
            typed_client.run("update t set n = n + 1000")
        values.check("t", "updated")
        typed_client.run("drop table t")


@pytest.mark.parametrize("storage", ["parquet", "csv"])
def test_texts_of_partition_columns_are_exact_or_changed_as_by_spark(client, storage):
    texts = [text for text in (*TEXTS, *PARTITION_TEXTS) if "\0" not in text and len(text) < LONG]
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate([*texts]))
    made = f"select n, p from values {rows} v(n, p) union all select 1000 + n, cast(p as string) p "
    made += "from values (1, X'ff'), (2, X'61c3'), (3, X'eda080') v(n, p) union all select 2000, null"
    client.spark.sql(made).createOrReplaceTempView("made")
    client.run("drop table if exists table_of_spark")
    for kind, name in (("temporary table", "t"), ("table", "table_of_spark")):
        client.run(f"create {kind} {name} using {storage} partitioned by (p) as select n, p from made where n < 1001")
        client.run(f"insert into {name} select n, p from made where n >= 1001")
    stored, of_spark, given = (
        client.sorted(f"select n, hex(cast(p as binary)) from {name}") for name in ("t", "table_of_spark", "made")
    )
    client.run("drop table table_of_spark")
    assert stored == of_spark
    changed = {number: (one, other) for (number, one), (_, other) in zip(given, stored, strict=True) if one != other}
    assert changed == {
        texts.index(""): ("", None),
        texts.index("__HIVE_DEFAULT_PARTITION__"): (b"__HIVE_DEFAULT_PARTITION__".hex().upper(), None),
        1001: ("FF", "EFBFBD"),
        1002: ("61C3", "61EFBFBD"),
        1003: ("EDA080", "EFBFBD"),
    }
    for number, text in enumerate(texts):
        if number not in changed:
            assert client.rows(f"select n from t where p = {literal(text)}") == [(number,)], text


def test_partition_values_that_no_directory_can_have_are_refused(client):
    client.run("create temporary table t (a int) partitioned by (p string, q int)")
    client.run("insert into t values (1, 'x', 1)")
    for text in (f"repeat('x', {LONG})", "'\\u0000'", "repeat('/', 85)", "repeat('é', 127)"):
        for statement in (
            f"create temporary table u partitioned by (p) as select 1 a, {text} p",
            f"create or replace temporary table t partitioned by (p) as select 1 a, {text} p",
            f"insert into t values (1, {text}, 1)",
            f"update t set p = {text}",
            f"merge into t using (select 1 a) s on t.a = s.a when matched then update set p = {text}",
        ):
            client.refuses(statement, "LODGE_PARTITION_VALUE", "22023", "[p]", "255 bytes")
    assert client.contents("t") == [[(1, "x", 1)]]


@pytest.mark.slow
@pytest.mark.parametrize("storage", FORMATS)
def test_merged_parts_keep_their_values(early_lodge, new_client, wait_until, storage):
    client = new_client(early_lodge)
    with set_to(client, SETTINGS):
        values = Values(client, columns(storage, [k for k in exact_kinds(storage) if k not in ONLY_AS_VALUES]))
        client.run(f"create temporary table t using {storage} as select * from made where n % 6 = 0")
        for number in range(1, 6):
            client.run(f"insert into t select * from made where n % 6 = {number}")
        wait_until(lambda: len(client.record().tables[0].parts) < 4, "the parts are merged")
        values.check("t")
    client.drop_all()


@pytest.fixture(scope="module")
def early_lodge(start_lodge, spark_server):
    """Start a gateway that merges parts when there are a few."""
    return start_lodge(backend=spark_server, program=["-c", WITH_EARLY_MERGES])
