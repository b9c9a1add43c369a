"""A script with each statement and each DataFrame call of the reference, for clients in several languages."""

from collections.abc import Sequence
from typing import Any

from tests.errors.client_programs import Write

Rows = Sequence[tuple[Any, ...]]

NO_ROWS: Rows = ()


def _created(rows: int) -> Rows:
    return (("0_0", rows),)


STATEMENTS: Sequence[tuple[str, Rows | None]] = (
    ("create temporary table t using orc comment 'c' tblproperties ('k' = 'v') as select 1 a, 'x' b", _created(1)),
    (
        "create temporary table if not exists t as select 2 a",
        ((False, "A table or view with given name [t] already exists in schema [dfs.tmp]."),),
    ),
    ("create or replace temporary table t tblproperties ('k' = 'v') as select 1 a, 'x' b", _created(1)),
    ("create temporary table p (a int, q int) using parquet partitioned by (q)", _created(0)),
    ("create temporary table l like t using orc", _created(0)),
    ("create or replace temporary table l (a int default 7, b string) using json", _created(0)),
    ("insert into t values (2, 'y')", NO_ROWS),
    ("insert into dfs.tmp.t (b) select 'z'", NO_ROWS),
    ("with w as (select 'w' b, 9 a) insert into t by name select * from w", NO_ROWS),
    ("insert into t replace where a = 9 values (3, 'w')", NO_ROWS),
    ("select * from t order by b", ((3, "w"), (1, "x"), (2, "y"), (None, "z"))),
    ("insert overwrite p partition (q = 1) values (1), (2)", NO_ROWS),
    ("insert overwrite p partition (q = 1) if not exists values (9)", NO_ROWS),
    ("insert into table p partition (q) values (3, 2)", NO_ROWS),
    ("from t insert into l select a, b where a < 3 insert into p partition (q = 3) select a where a = 3", NO_ROWS),
    ("select * from l order by a", ((1, "x"), (2, "y"))),
    ("select * from p order by a, q", ((1, 1), (2, 1), (3, 2), (3, 3))),
    ("update t set b = 'new' where a = 1", NO_ROWS),
    ("delete from dfs.tmp.t old where old.b = 'y'", NO_ROWS),
    ("select * from t order by b", ((1, "new"), (3, "w"), (None, "z"))),
    (
        "merge into t using l on t.a = l.a when matched then update set b = upper(l.b) when not matched then insert *",
        NO_ROWS,
    ),
    ("select * from t order by b", ((1, "X"), (3, "w"), (2, "y"), (None, "z"))),
    ("truncate table p partition (q = 3)", NO_ROWS),
    ("show partitions p", (("q=1",), ("q=2",))),
    ("alter table p drop if exists partition (q = 2), partition (q = 8)", NO_ROWS),
    ("select * from p order by a", ((1, 1), (2, 1))),
    ("truncate table l", NO_ROWS),
    ("select count(*) n from l", ((0,),)),
    ("show temporary tables in dfs.tmp like '*'", None),
    (
        "show tables in dfs.tmp like '*'",
        (("dfs.tmp", "l", True), ("dfs.tmp", "p", True), ("dfs.tmp", "t", True)),
    ),
    ("alter table t add columns (c int default 5)", NO_ROWS),
    ("alter table t alter column c set default 6", NO_ROWS),
    ("insert into t (a) values (6)", NO_ROWS),
    ("alter table t change column a comment 'about'", NO_ROWS),
    ("alter table t alter column c drop default", NO_ROWS),
    ("insert into t (a) values (8)", NO_ROWS),
    ("select a, c from t where a > 2 order by a", ((3, 5), (6, 6), (8, None))),
    ("describe t", (("a", "int", "about"), ("b", "string", None), ("c", "int", None))),
    ("show columns in t", (("a",), ("b",), ("c",))),
    ("alter table t set tblproperties ('n' = 'm', 'o' = 'p')", NO_ROWS),
    ("alter table t unset tblproperties if exists ('k', 'z')", NO_ROWS),
    ("show tblproperties t", (("n", "m"), ("o", "p"))),
    ("show tblproperties t (n)", (("n", "m"),)),
    ("comment on table t is 'text'", NO_ROWS),
    ("comment on table l is null", NO_ROWS),
    ("analyze table t compute statistics", NO_ROWS),
    ("show create table t", None),
    ("explain create temporary table n as select 1 a", None),
    ("explain extended create temporary table n as select 1 a", None),
    ("alter table t rename to r", NO_ROWS),
    ("refresh table r", NO_ROWS),
    ("cache table r", NO_ROWS),
    ("uncache table r", NO_ROWS),
    ("declare or replace variable query string default 'select a, b from r where a = ?'", NO_ROWS),
    ("execute immediate query using 1", ((1, "X"),)),
    ("execute immediate 'select count(*) n from dfs.tmp.r'", ((6,),)),
    ("create table dfs.by_clients using parquet as select 1 a", _created(1)),
    ("select * from dfs.by_clients", ((1,),)),
    ("drop table dfs.by_clients", ((True, "Table [by_clients] dropped"),)),
    ("drop view if exists r", ((False, "View [r] not found in schema [dfs.tmp]."),)),
    ("drop table if exists nope", ((False, "Table [nope] was not found."),)),
    ("drop table l purge", ((True, "Temporary table [l] was dropped."),)),
)
"""Each statement of the reference, with its rows. They are None if they are not the same in each run."""

DIFFERENT_IN_EACH_SESSION = ("bytes", "createdAt", "ageSeconds", "plan", "createtab_stmt")
"""The columns whose values are not the same in each session."""

CALLS: Sequence[tuple[str | Write, Rows]] = (
    ("create temporary table d (a int, b string)", _created(0)),
    (Write("write.insertInto(name)", "select 1 x, 'x' y", "d"), NO_ROWS),
    (Write('write.mode("append").saveAsTable(name)', "select 'y' b, 2 a", "dfs.tmp.d"), NO_ROWS),
    (Write("writeTo(name).append()", "select 3 a", "d"), NO_ROWS),
    ("select * from d order by a", ((1, "x"), (2, "y"), (3, None))),
    (Write("writeTo(name).overwrite(condition)", "select 'n' b, 4 a", "d", "a = 2"), NO_ROWS),
    ("select * from d order by a", ((1, "x"), (3, None), (4, "n"))),
    (Write("write.insertInto(name, overwrite=True)", "select 5 a, 'o' b", "d"), NO_ROWS),
    ("select * from d", ((5, "o"),)),
    (Write('write.mode("overwrite").saveAsTable(name)', "select 'r' c", "d"), NO_ROWS),
    ("select * from d", (("r",),)),
    (Write("writeTo(name).replace()", "select 6 e", "d"), NO_ROWS),
    ("select * from d", ((6,),)),
    (Write("writeTo(name).createOrReplace()", "select 'x' f, 7 g", "dfs.tmp.d"), NO_ROWS),
    ("select * from d", (("x", 7),)),
    ("create temporary table e partitioned by (q) as select id a, id % 2 q from range(3)", _created(3)),
    (Write("writeTo(name).overwritePartitions()", "select 0L q, 8L a", "e"), NO_ROWS),
    ("select * from e order by a", ((1, 1), (8, 0))),
    (Write("mergeInto(name, condition)…merge()", "select 9L q, 8L a, 8L k", "e", "e.a = k"), NO_ROWS),
    ("select * from e order by a", ((1, 1), (8, 9))),
)
"""Each DataFrame call of the reference, with queries that show its effect."""
