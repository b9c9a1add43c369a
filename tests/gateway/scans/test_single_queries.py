"""Which texts have only queries that Spark plans once."""

import pytest

from gateway.scans.single_queries import has_single_queries
from gateway.sql.lexer import tokenize


@pytest.mark.parametrize(
    "text",
    [
        "select a from t where b = 1",
        "SELECT a FROM (SELECT b FROM t) x JOIN (select c from (select c from u)) y ON x.b = y.c",
        "select a from t union all select b from u union select c from v union distinct select 1",
        "select * from (select a from t union select b from u) where a in (1, 2)",
        "with c as (select * from t) select c.a from c where c.b = 1",
        "with c as (select 1, 2), `d` as (select a from C) select * from D join (select * from u) on true",
        "with never as (select 1) select * from t",
    ],
)
def test_queries_in_places_of_tables_are_found(text):
    assert has_single_queries(tokenize(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "with",
        "with c",
        "with c as",
        "with c as (",
        "with c as (select 1",
        "with c as (select 1)",
        "with c as (select 1),",
        "with c as (select 1), select * from c",
        "with c (select 1) select * from c",
        "with c (a) as (select 1) select * from c",
        "with 'c' as (select 1) select * from c",
        "from t select a",
        "insert into t select 1",
        "with c as (select 1) insert into t select * from c",
        "with select as (select 1) insert into t select * from select",
        "with c as (select * from t) select * from c x join c y on x.a = y.a",
        "with c as (select * from t) select * from C union all select * from `c`",
        "with c as (select 1), d as (select * from c) select * from c, d",
        "with recursive c as (select 1) select * from c",
        "with c as (select 1), c as (select 2) select * from c",
        "with i as (select 1) select * from i union all select * from \N{LATIN SMALL LETTER DOTLESS I}",
        "select * from (with c as (select 1) select * from c)",
        "select a from t where b in (select c from u)",
        "select a from t where exists (select 1)",
        "select (select max(b) from u) from t",
        "select trim('x' from (select 'y')) from t",
        "select a from t where b = trim('x' from (select max(c) from u))",
        "select * from t, (select 1)",
        "select * from t, lateral (select 1)",
        "select * from (t join (select 1) on true)",
        "select a from t except select b from u",
        "select a from t where a is distinct from (select max(b) from u where b < a)",
        "select a from t where a is not distinct from (select 1)",
        "select a from t union all from u map a using 'cat' as b where b > 1 map a using 'cat' as b where b < 1",
        "select a from t union all (select b from u)",
        "select 1) from (select 2",
        "select max(a from (select b from u)) from t",
    ],
)
def test_other_texts_are_not_found(text):
    assert not has_single_queries(tokenize(text))
