"""The options of column definitions."""

import pytest

from gateway.sql.column_definitions import parse_column_definitions


@pytest.mark.parametrize(
    ("sql", "text", "defaults"),
    [
        ("a int, b string", "a int, b string", ()),
        ("a int default 5", "a int          ", ((0, "5"),)),
        (
            "a int not null default 1 + 2 comment 'x', b int",
            "a int not null               comment 'x', b int",
            ((0, "1 + 2"),),
        ),
        (
            "a int default f(1, 2), b int default null",
            "a int                , b int             ",
            ((0, "f(1, 2)"), (1, "null")),
        ),
        (
            "a struct<x: int, y: map<int, int>>, b int default 1 < 2",
            "a struct<x: int, y: map<int, int>>, b int              ",
            ((1, "1 < 2"),),
        ),
        ("a boolean default not true not null", "a boolean                  not null", ((0, "not true"),)),
        ("a boolean default 1 is not null", "a boolean                      ", ((0, "1 is not null"),)),
        ("default int, b decimal(10, 2) default 1.5", "default int, b decimal(10, 2)            ", ((1, "1.5"),)),
        (
            "a array<int> default array(1, 2)[0], b int",
            "a array<int>                       , b int",
            ((0, "array(1, 2)[0]"),),
        ),
        ("check int, `default` int, primary string", "check int, `default` int, primary string", ()),
        ("a int default", "a int default", ()),
    ],
)
def test_defaults_are_cut_out(sql, text, defaults):
    found = parse_column_definitions(sql)
    assert (found.text, found.defaults, found.unsupported) == (text, defaults, "")


@pytest.mark.parametrize(
    ("sql", "unsupported"),
    [
        ("a int, b int generated always as (a + 1)", "GENERATED"),
        ("a int default 1 default 2", "DEFAULT"),
        ("a int primary key", "PRIMARY"),
        ("a int, primary key (a)", "PRIMARY"),
        ("a int, constraint c check (a > 1)", "CONSTRAINT"),
        ("a int check (a > 1)", "CHECK"),
        ("a int default 1 references b", "REFERENCES"),
        ("a int, check (a > 1)", "CHECK"),
    ],
)
def test_unsupported_options_are_found(sql, unsupported):
    assert parse_column_definitions(sql).unsupported == unsupported
