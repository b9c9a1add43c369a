"""Random definitions and insertions, compared with a table of Spark in the same format."""

from random import Random

import pytest

from tests.gateway.tables.spark_pair import SparkPair

STATEMENTS = 14
_TYPES = {
    "int": ("1", "-7", "2.5", "'x'", "null", "99999999999"),
    "bigint": ("1", "cast(3 as tinyint)", "null", "1.9"),
    "double": ("1", "0.1D", "null", "'nan'"),
    "decimal(5, 2)": ("1", "123.456", "1234567", "null"),
    "string": ("'v'", "7", "null", "''", "date'2020-01-01'"),
    "char(3)": ("'ab'", "'abcd'", "'abc  '", "null"),
    "varchar(3)": ("'ab'", "'abcd'", "'abc  '", "null"),
    "boolean": ("true", "null", "1"),
    "date": ("date'2020-01-01'", "timestamp'2020-01-01 10:00:00'", "'2020-01-01'", "null"),
    "timestamp": ("timestamp'2020-01-01 10:00:00'", "date'2020-01-01'", "null"),
    "array<int>": ("array(1, 2)", "array('x')", "array(1.5)", "null"),
    "struct<x: int, y: varchar(2)>": ("struct(1, 'a')", "struct(1, 'abc')", "named_struct('y', 'a', 'x', 1)", "null"),
}
_DEFAULTS = {"int": "40 + 2", "string": "concat('d', 'e')", "varchar(3)": "'dd'", "date": "date'2021-01-01'"}
_TOO_LONG = {"'abcd'", "struct(1, 'abc')", "99999999999", "1234567", "'x'", "'nan'", "array('x')"}
_PARTITION_TYPES = ("int", "string", "date", "boolean", "decimal(5, 2)")
_POLICIES = ("ANSI", "ANSI", "ANSI", "LEGACY", "STRICT")


def random_columns(chosen: Random) -> dict[str, str]:
    columns = {f"c{number}": chosen.choice(sorted(_TYPES)) for number in range(chosen.randrange(1, 4))}
    return columns | {f"p{number}": chosen.choice(_PARTITION_TYPES) for number in range(chosen.randrange(3))}


def definition(chosen: Random, columns: dict[str, str]) -> str:
    defined = []
    for name, kind in columns.items():
        is_partition = name.startswith("p")
        not_null = " not null" if not is_partition and chosen.random() < 0.1 else ""
        has_default = not is_partition and kind in _DEFAULTS and chosen.random() < 0.6
        default = f" default {_DEFAULTS[kind]}" if has_default else ""
        comment = " comment 'about it'" if chosen.random() < 0.2 else ""
        defined.append(f"{name} {kind}{not_null}{default}{comment}")
    partitions = ", ".join(name for name in columns if name.startswith("p"))
    storage = chosen.choice(("parquet", "parquet", "orc", "json"))
    return f"({', '.join(defined)}) using {storage}" + (f" partitioned by ({partitions})" if partitions else "")


def insertion(chosen: Random, columns: dict[str, str]) -> str:
    values = {name: value(chosen, kind) for name, kind in columns.items()}
    verb = chosen.choice(("insert into", "insert into", "insert overwrite"))
    partitions = [name for name in columns if name.startswith("p")]
    clause = ""
    if partitions and chosen.random() < 0.5:
        constants = partitions[: chosen.randrange(len(partitions) + 1)]
        values |= {p: "'v'" for p in constants if values[p] == "''"}  # the error may hide another one
        clause = f"partition ({', '.join(f'{p} = {values.pop(p)}' if p in constants else p for p in partitions)})"
    queries = ["select {}", "select {}", "values ({})", "select {} from range(2)"]
    if _TOO_LONG.isdisjoint(values.values()):  # Spark may refuse a constant although no row has it
        queries.append("select {} from range(2) where id > 7")
    query = chosen.choice(queries)
    if chosen.random() < 0.1:
        values.pop(chosen.choice(sorted(values)), None)
    match chosen.randrange(4):
        case 0:
            named = [f"{each} as {name}" for name, each in chosen.sample(sorted(values.items()), len(values))]
            return f"{verb} {{t}} {clause} by name select {', '.join(named) or 1}"
        case 1 if values:
            listed = chosen.sample(sorted(values), chosen.randrange(1, len(values) + 1))
            row = ", ".join(values[name] for name in listed)
            return f"{verb} {{t}} {clause} ({', '.join(listed)}) {query.format(row)}"
        case _:
            return f"{verb} {{t}} {clause} {query.format(', '.join(values.values()) or '1')}"


def other_statement(chosen: Random, columns: dict[str, str]) -> str:
    """Return a statement with several ``INSERT`` clauses, or one that concerns partitions.

    Spark finds a partition with NULL only if the values of all partition columns are given, and never truncates it.
    """
    partitions = [name for name in columns if name.startswith("p")]
    if not partitions or chosen.random() < 0.4:
        rows = [", ".join(value(chosen, kind) for kind in columns.values()) for _ in range(2)]
        verbs = [chosen.choice(("insert into", "insert overwrite")) for _ in range(2)]
        return f"from range(2) {verbs[0]} {{t}} select {rows[0]} where id > 0 {verbs[1]} {{t}} select {rows[1]}"
    named = chosen.sample(partitions, chosen.randrange(1, len(partitions) + 1))
    is_overwrite = chosen.random() < 0.3
    values = {
        name: sorted({*_TYPES[columns[name]]} - {*_TOO_LONG, "null", "2.5"})
        for name in columns
        if name in named or is_overwrite
    }
    spec = ", ".join(f"{name} = {chosen.choice(each)}" for name, each in values.items() if name in partitions)
    if is_overwrite:
        data = [value(chosen, kind) for name, kind in columns.items() if name not in partitions]
        return f"insert overwrite {{t}} partition ({spec}) if not exists select {', '.join(data) or '1'}"
    exists = chosen.choice(("", "if exists "))
    return chosen.choice(
        (f"alter table {{t}} drop {exists}partition ({spec})", f"truncate table {{t}} partition ({spec})")
    )


def value(chosen: Random, kind: str) -> str:
    return "default" if chosen.random() < 0.15 else chosen.choice(_TYPES[kind])


def compare_insertions(client, seed: int) -> None:
    chosen = Random(seed)  # noqa: S311 - must be repeatable
    pair = SparkPair(client)
    columns = random_columns(chosen)
    try:
        with pair.tables(definition(chosen, columns)):
            for number in range(STATEMENTS):
                client.set("spark.sql.sources.partitionOverwriteMode", chosen.choice(("static", "dynamic")))
                client.set("spark.sql.storeAssignmentPolicy", chosen.choice(_POLICIES))
                text = (insertion if chosen.random() < 0.75 else other_statement)(chosen, columns)
                pair.run(text)
                pair.compare((seed, number, text))
    finally:
        client.unset("spark.sql.sources.partitionOverwriteMode")
        client.unset("spark.sql.storeAssignmentPolicy")


@pytest.mark.parametrize("seed", range(6))
def test_insertions_have_the_effect_that_they_have_on_a_table_of_spark(client, seed):
    compare_insertions(client, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 24))
def test_more_insertions_have_the_effect_that_they_have_on_a_table_of_spark(client, seed):
    compare_insertions(client, seed)


@pytest.mark.parametrize("storage", ["parquet", "orc", "json", "csv"])
def test_default_values_and_lengths_are_those_of_spark(client, storage):
    pair = SparkPair(client)
    columns = (
        "a int not null default 40 + 2 comment 'ca', b char(3), c varchar(3) default 'dd', d decimal(5, 2) default 1"
    )
    with pair.tables(f"({columns}) using {storage}"):
        for text, condition in (
            ("values (default, 'a', default, default)", None),
            ("(b) values ('x')", None),
            ("values (null, 'ab   ', 'abc  ', null)", None),
            ("values (null, 'abcd', 'b', null)", "EXCEED_LIMIT_LENGTH"),
            ("by name select 1 a", None),
            ("values (default + 1, 'a', 'b', null)", "DEFAULT_PLACEMENT_INVALID"),
            ("(a, b) values (1, 'x'), (default, default)", None),
        ):
            assert pair.run(f"insert into {{t}} {text}") == condition
        pair.run("with q as (select 1 x) insert into {t} select x, default, default, default from q")
        assert pair.run("insert into {t} table {t}") is None
        pair.compare()
        assert client.rows("select count(*) from t where b = 'x'") == [(4,)]


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        ("a int default (select 1)", "INVALID_DEFAULT_VALUE.SUBQUERY_EXPRESSION"),
        ("a int default 'abc'", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
        ("a int default 99999999999", "INVALID_DEFAULT_VALUE.DATA_TYPE"),
        ("a int default 1 default 2", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int generated always as (1)", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int, b int default 1) partitioned by (b", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int, b char(3)) partitioned by (b", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int primary key", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
        ("a int, constraint c check (a > 1)", "UNSUPPORTED_FEATURE.TABLE_OPERATION"),
    ],
)
def test_invalid_column_definitions_are_refused(client, column, condition):
    sql_state = {"I": "42623", "U": "0A000"}[condition[0]]
    client.refuses(f"create temporary table t ({column})", condition, sql_state)


def test_definition_is_shown_and_kept(client):
    client.run("create temporary table t (a int default 1 + 1 comment 'it''s', b char(3), c array<varchar(2)>)")
    (shown,) = client.rows("show create table t")
    client.run("drop table t")
    client.run(shown[0])
    client.run("insert into t (b) values ('x')")
    assert client.rows("select * from t") == [(2, "x  ", None)]
    client.refuses("insert into t (c) values (array('abc'))", "EXCEED_LIMIT_LENGTH", "54006")
    client.run("create temporary table u like t")
    client.run("insert into u (b) values ('y')")
    assert client.rows("select a, b from u") == [(2, "y  ")]
