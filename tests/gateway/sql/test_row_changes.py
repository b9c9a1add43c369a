"""``UPDATE``, ``DELETE`` and ``MERGE INTO``."""

import pytest

from gateway.sql.row_changes import Action, Assignment, parse_row_change


@pytest.mark.parametrize(
    ("sql", "alias", "condition", "assignments"),
    [
        ("delete from t", "", "", ()),
        ("delete from t as x where x.a in (select 1 where true)", "x", "x.a in (select 1 where true)", ()),
        ("update t set a = 1", "", "", ((("a",), "1"),)),
        (
            "update t x set x.a = b + f(1, 2), s.`m n` == case when c then 1 else 2 end where d = 1",
            "x",
            "d = 1",
            ((("x", "a"), "b + f(1, 2)"), (("s", "m n"), "case when c then 1 else 2 end")),
        ),
        ("update t set a = default -- c\n where b", "", "b", ((("a",), "default"),)),
    ],
)
def test_updates_and_deletions(sql, alias, condition, assignments):
    found = parse_row_change(f"{sql};")
    assert (found.table.parts, found.alias, found.condition) == (("t",), alias, condition)
    assert found.assignments == tuple(Assignment(*each) for each in assignments)


def test_merge():
    found = parse_row_change(
        "merge into a.t using (select 1 x) as s on case when t.a then 1 end = s.x "
        "when matched and t.b > 1 then update set a = s.x, t.b = case when 1 then 2 end when matched then delete "
        "when not matched by target and s.x > 1 then insert (a, b) values (s.x, f(1)) when not matched then insert * "
        "when not matched by source then update set b = 1"
    )
    assert (found.table.parts, found.alias, found.source, found.source_alias) == (
        ("a", "t"),
        "",
        "(select 1 x) as s",
        "s",
    )
    assert found.condition == "case when t.a then 1 end = s.x"
    assert found.matched == (
        Action("t.b > 1", (Assignment(("a",), "s.x"), Assignment(("t", "b"), "case when 1 then 2 end"))),
        Action("", deletes=True),
    )
    assert found.not_matched == (
        Action("s.x > 1", (Assignment(("a",), "s.x"), Assignment(("b",), "f(1)"))),
        Action("", None),
    )
    assert found.not_matched_by_source == (Action("", (Assignment(("b",), "1"),)),)


@pytest.mark.parametrize(
    ("sql", "source", "alias"),
    [
        ("using u on true", "u", "u"),
        ("using a.`b c` on true", "a.`b c`", "b c"),
        ("using u v on true", "u v", "v"),
        ("using (select 1) on true", "(select 1)", ""),
    ],
)
def test_source_of_merge(sql, source, alias):
    found = parse_row_change(f"merge into t as x {sql} when matched then update set *")
    assert (found.alias, found.source, found.source_alias, found.condition) == ("x", source, alias, "true")
    assert found.matched == (Action("", None),)


@pytest.mark.parametrize(
    "sql", ["merge with schema evolution into t using s on 1 when matched then delete", "select 1"]
)
def test_other_statements_are_not_parsed(sql):
    assert parse_row_change(sql) is None
