"""``DataFrame.mergeInto`` beside ``MERGE INTO``."""

import pytest
from pyspark.sql.connect import functions as sf

COLUMNS = "k int, b string default 'd', c bigint, s struct<x: int, y: string>"
SOURCE = "select * from values (1, 'm', 10), (2, 'n', 20), (9, 'o', 90) as v(k, b, c)"
MERGES = {
    "when matched and src.c > 15 then delete when matched then update set b = concat(t.b, src.b), t.s.x = src.c": (
        lambda merge: (
            merge.whenMatched(sf.expr("src.c > 15"))
            .delete()
            .whenMatched()
            .update({"b": sf.expr("concat(t.b, src.b)"), "t.s.x": sf.col("src.c").cast("int")})
        )
    ),
    "when not matched and src.k > 5 then insert (k, c) values (src.k, -src.c)": (
        lambda merge: merge.whenNotMatched(sf.col("src.k") > 5).insert({"k": sf.col("src.k"), "c": -sf.col("src.c")})
    ),
    "when matched and t.k > 1 then update set c = 1 / (t.k - 1) when not matched by source then update set b = 'q'": (
        lambda merge: (
            merge.whenMatched(sf.expr("t.k > 1"))
            .update({"c": sf.expr("cast(1 / (t.k - 1) as bigint)")})
            .whenNotMatchedBySource()
            .update({"b": sf.lit("q")})
        )
    ),
    "when not matched then insert (k) values (src.k) when not matched by source and t.k = 0 then delete": (
        lambda merge: (
            merge.whenNotMatchedBySource(sf.expr("t.k = 0")).delete().whenNotMatched().insert({"k": sf.expr("src.k")})
        )
    ),
}


def source(client):
    return client.spark.sql(SOURCE).alias("src")


@pytest.mark.parametrize("text", MERGES)
def test_data_frame_merges_like_the_statement(client, text):
    found = []
    for run in (
        lambda: client.run(f"merge into t using ({SOURCE}) src on t.k = src.k {text}"),
        lambda: MERGES[text](source(client).mergeInto("dfs.tmp.t", sf.expr("t.k = src.k"))).merge(),
    ):
        client.run(f"create or replace temporary table t ({COLUMNS})")
        client.run("insert into t select id, concat('b', id), id * 10, struct(id, 'y') from range(4)")
        run()
        found.append(client.contents("t"))
    assert found[0] == found[1]


def test_star_takes_the_columns_of_the_data_frame(client):
    client.run("create temporary table t (c bigint, k int, b string) partitioned by (b)")
    client.run("insert into t values (1, 1, 'x'), (2, 5, 'y')")
    frame = source(client)
    frame.mergeInto("t", frame["k"] == sf.col("t.k")).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert client.sorted("select k, b, c from t") == [(1, "m", 10), (2, "n", 20), (5, "y", 2), (9, "o", 90)]


def test_refused_merge_of_a_data_frame_changes_nothing(client):
    client.run(f"create temporary table t ({COLUMNS})")
    client.run("insert into t (k) values (1), (2)")
    twice = client.spark.sql(f"{SOURCE} union all select 1, 'z', 0").alias("src")
    merge = source(client).mergeInto("t", sf.expr("t.k = src.k"))
    for frame, condition, state in (
        (merge.whenMatched().update({"nope": sf.lit(1)}), "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
        (
            source(client).mergeInto("t", sf.expr("t.nope = 1")).whenMatched().delete(),
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            "42703",
        ),
        (
            twice.mergeInto("t", sf.expr("t.k = src.k")).whenMatched().update({"b": sf.lit("x")}),
            "MERGE_CARDINALITY_VIOLATION",
            "23K01",
        ),
        (
            source(client).mergeInto("t", sf.expr("t.k = src.k")).whenMatched().update({"k": sf.lit(3_000_000_000)}),
            "CAST_OVERFLOW_IN_TABLE_INSERT",
            "22003",
        ),
        (
            source(client).mergeInto("t", sf.expr("t.k = src.k")).whenMatched().delete().withSchemaEvolution(),
            "LODGE_TEMPORARY_TABLE_OPERATION",
            "0A000",
        ),
    ):
        client.refuses(frame.merge, condition, state)
    assert client.sorted("select k from t") == [(1,), (2,)]
