"""Temporary tables in queries [temporary-tables §4.4, §5.1.14, §5.14]."""

import pytest

EXAMPLE = """
    create temporary table total_amount_by_discount as
    select cast(columns[3] as boolean) discount, sum(cast(columns[2] as double)) total_amount
    from dfs.`amount.csv`
    group by columns[3];
"""


def test_example_of_requirements_document(client):
    assert client.rows(EXAMPLE) == [("0_0", 2)]
    for name in ("total_amount_by_discount", "dfs.tmp.total_amount_by_discount", "TOTAL_Amount_by_DISCOUNT"):
        assert client.sorted(f"select * from {name}") == [(False, 220.0), (True, 650.0)]
    assert client.spark.table("total_amount_by_discount").dtypes == [
        ("discount", "boolean"),
        ("total_amount", "double"),
    ]


@pytest.mark.slow
def test_joins_mix_temporary_tables_permanent_tables_and_files(writer):
    (writer.gateway.files / "n.csv").write_text("1\n2\n")
    writer.run("create temporary table t as select id a from range(5)")
    writer.run("create temporary table u as select id a from range(3, 9)")
    writer.run("create table dfs.p as select 4L a")
    assert writer.sorted("select a from t join dfs.tmp.u using (a)") == [(3,), (4,)]
    assert writer.rows("select t.a from t join dfs.p p on t.a = p.a where t.a in (select a from u)") == [(4,)]
    assert writer.rows("select count(*) from t where exists (select 1 from dfs.p p where p.a = t.a)") == [(1,)]
    assert writer.sorted("select t.a from t join dfs.`n.csv` n on t.a = cast(n.columns[0] as int)") == [(1,), (2,)]
    assert writer.rows("select (select max(a) from u) - (select max(a) from t) d") == [(4,)]
    writer.run("drop table dfs.p")
    (writer.gateway.files / "n.csv").unlink()


def test_spark_knows_table_size_and_broadcasts_small_table(client):
    client.run("create temporary table small as select id k from range(10)")
    client.run("create temporary table large as select id k, repeat(uuid(), 30) v from range(60000)")
    (plan,) = client.spark.sql("explain cost select * from large join small using (k)").first()
    assert "BroadcastHashJoin" in plan
    (optimised,) = client.spark.sql("explain cost select * from small").first()
    assert "sizeInBytes=8.0 EiB" not in optimised
    client.run("insert into small select id from range(10, 20)")
    (plan,) = client.spark.sql("explain select * from large join small using (k)").first()
    assert "BroadcastHashJoin" in plan


def test_query_reads_only_needed_columns_and_rows(client):
    client.run("create temporary table t partition by (p) as select id a, 'x' b, id % 3 p from range(9)")
    (plan,) = client.spark.sql("explain select a from t where p = 1 and a > 3").first()
    assert "ReadSchema: struct<a:bigint>" in plan
    assert "PartitionFilters: [isnotnull(p" in plan
    assert "PushedFilters: [IsNotNull(a), GreaterThan(a,3)]" in plan
