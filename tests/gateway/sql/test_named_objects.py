"""The tables and files that a SQL text names."""

import pytest

from gateway.sql.named_objects import find_named_objects

TEXTS = {
    "select 1": ("SELECT", [], []),
    "select * from a.b join c on a.b.x = c.y where d > (select max(z) from e.f)": ("SELECT", ["a.b", "c", "e.f"], []),
    "select * from (select * from a, b) x, c where a in (select 1 from d)": ("SELECT", ["a", "b", "c", "d"], []),
    "with q as (select 1 from r) select * from q, `a b`.c": ("WITH", ["r", "a b.c"], []),
    "select extract(year from d), trim(both from x) from t": ("SELECT", ["t"], []),
    "select * from t1 join t2 using (a), t3": ("SELECT", ["t1", "t2", "t3"], []),
    "select * from values (1) v, t": ("SELECT", ["t"], []),
    "select * from t lateral view explode(a) x": ("SELECT", ["t"], []),
    "with recursive q(n) as (select 1 union all select n + 1 from q) select * from q": ("WITH", [], []),
    "describe function f": ("DESCRIBE", [], []),
    "refresh table t": ("REFRESH", ["t"], []),
    "drop view v": ("DROP", ["v"], []),
    "select * from read_files('/x'), t": ("SELECT", ["t"], []),
    "select 'from x' from t -- from y": ("SELECT", ["t"], []),
    "select * from parquet.`/data/a`, delta.`s3://b/c`": ("SELECT", [], ["/data/a", "s3://b/c"]),
    "create temporary table t as select * from u": ("CREATE", ["t", "u"], []),
    "create or replace temp view v as select 1": ("CREATE", ["v"], []),
    "create table t using parquet location '/a/b'": ("CREATE", ["t"], ["/a/b"]),
    "drop table if exists dfs.tmp.t": ("DROP", ["dfs.tmp.t"], []),
    "insert into t values (1)": ("INSERT", ["t"], []),
    "insert overwrite table t select * from u": ("INSERT", ["t", "u"], []),
    "insert overwrite directory '/x/y' using csv select * from t": ("INSERT", ["t"], ["/x/y"]),
    "load data inpath '/x' into table t": ("LOAD", ["t"], ["/x"]),
    "merge into t using s on t.a = s.a when matched then delete": ("MERGE", ["t", "s"], []),
    "update t set a = 1": ("UPDATE", ["t"], []),
    "delete from t where a = 1": ("DELETE", ["t"], []),
    "alter table a.b add columns (c int)": ("ALTER", ["a.b"], []),
    "describe table extended t": ("DESCRIBE", ["t"], []),
    "": ("", [], []),
    "from": ("FROM", [], []),
    ")))": ("", [], []),
}


@pytest.mark.parametrize("sql", TEXTS)
def test_text_names_tables_and_files(sql: str) -> None:
    named = find_named_objects(sql)
    assert (named.keyword, list(named.tables), list(named.files)) == TEXTS[sql]
