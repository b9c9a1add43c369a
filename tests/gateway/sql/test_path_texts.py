"""Paths are found wherever a SQL statement can contain them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.authorization.path_fence import MAX_PATH_CHARACTERS, UNKNOWN, PathFence
from gateway.errors import GatewayError
from gateway.sql.parameters import Parameters
from gateway.sql.path_texts import (
    TextUse,
    find_name_paths,
    find_path_texts,
    may_contain_path,
    read_option,
    use_of_option,
)


def paths(sql, **parameters):
    return {
        found.text
        for found in find_path_texts(sql, Parameters.of_statement(sql, **parameters))
        if found.use in {TextUse.PATH, TextUse.ADDED}
    }


def values(sql, **parameters):
    return {
        found.text
        for found in find_path_texts(sql, Parameters.of_statement(sql, **parameters))
        if found.use is TextUse.VALUE
    }


@pytest.mark.parametrize(
    "sql",
    [
        "select * from parquet.`/p`",
        "select * from `parquet`.`/p`",
        "select * from parquet . `/p`",
        "select * from parquet./* x */`/p`",
        "select * from parquet.-- x\n`/p`",
        'select * from parquet."/p"',
        "select (select max(a) from text.`/p`)",
        "with a as (select * from json.`/p`) select * from a",
        "select * from identifier('parquet.`/p`')",
        "select * from identifier('parq' || 'uet.`/p`')",
        "select * from identifier(:x || 'parquet.`/p`')",
        "insert into parquet.`/p` select 1",
        "insert overwrite directory '/p' using parquet select 1",
        "insert overwrite local directory '/p' select 1",
        "insert overwrite directory using parquet options (path '/p') select 1",
        "create table t (a int) using parquet location '/p'",
        "create table t (a int) using parquet location '/' 'p'",
        "create table t (a int) using parquet location r'/p'",
        r"create table t (a int) using parquet location '\u002fp'",
        "create table t (a int) using parquet LOCATION /* x */ '/p'",
        "create table t using csv options ('path' = '/p', header true)",
        'create table t using csv options ("path" "/p")',
        "create table t using csv options (path = '/p')",
        "create temporary view v using parquet options (path '/p')",
        "select * from t with (`path` = '/p')",
        "create database d location '/p'",
        "create database d with dbproperties (location = '/p')",
        "alter table t set location '/p'",
        "alter table t partition (a=1) set location '/p'",
        "alter table t add partition (a=1) location '/p'",
        "load data inpath '/p' into table t",
        "load data local inpath '/p' overwrite into table t",
        "add jar /p",
        "ADD FILE '/p'",
        "add archives /x /p",
        "refresh '/p'",
        "refresh /p",
        "create function f as 'a.B' using jar '/p'",
        "create function f as 'a.B' using jar '/x', file '/p'",
        "copy into t from '/p' fileformat = csv",
        "select * from read_files('/p')",
        "execute immediate 'select * from parquet.`/p`'",
        "execute immediate 'select * from par' || 'quet.`/p`'",
        "execute immediate 'create table t (a int) location ''/p'''",
        "declare q string default 'select * from parquet.`/p`'",
        "set var q = 'insert overwrite directory \\'/p\\' select 1'",
        "begin insert overwrite directory '/p' using csv select 1; end",
        "begin select 1; add jar /p; end",
        "cache table t options ('path' '/p') select 1",
        "explain select * from parquet.`/p`",
        "create table u like t location '/p'",
        "replace table t using parquet location '/p' as select 1",
    ],
)
def test_paths_are_found(sql):
    assert "/p" in paths(sql)


def test_parameters_are_values_and_names():
    assert "/p" in values("create table t (a int) location :p", named={"p": "/p"})
    assert "/p" in paths("select * from identifier(:p)", named={"p": "parquet.`/p`"})
    assert "/p" in paths("select * from identifier(?)", positional=["parquet.`/p`"])
    assert "/p" in paths("execute immediate ?", positional=["select * from parquet.`/p`"])


@pytest.mark.parametrize(
    "statement",
    ["create table t (a int) using csv location", "insert overwrite directory", "load data inpath", "add jar"],
)
def test_adjacent_strings_and_parameters_are_one_path(statement):
    named, positional = {"a": "/sr", "b": "v/p"}, ["/sr", "v/p"]
    for sql, parameters in (
        (f"{statement} :a :b using csv", {"named": named}),
        (f"{statement} ? ? using csv", {"positional": positional}),
        (f"{statement} '/s' 'r' :b using csv", {"named": named}),
        (f"{statement} :a 'v' '/p' using csv", {"named": named}),
    ):
        found = paths(sql, **parameters)
        assert "/srv/p" in found or "add" in statement, sql  # Spark replaces nothing in the text of ADD
    assert "/p" in paths("create table t (a int) location :p", named={"p": "/p"})


def test_parameter_whose_value_is_unknown_is_an_unknown_path():
    for has_unknown in (True, False):
        for sql in ("create table t (a int) location :p", "insert overwrite directory :p 'x' using csv"):
            parameters = Parameters.of_statement(sql, has_others=True, has_unknown=has_unknown)
            assert UNKNOWN in {each.text for each in find_path_texts(sql, parameters) if each.use is TextUse.PATH}
    assert UNKNOWN not in paths("select file:name, path ? from t")  # no parameter, so Spark reads something else
    for sql in ("select * from identifier(:p)", "execute immediate :p"):
        parameters = Parameters.of_statement(sql, has_unknown=True)
        assert UNKNOWN in {each.text for each in find_path_texts(sql, parameters)}, sql


@pytest.mark.parametrize(
    "name", ["parquet.IDENTIFIER('`/p`')", "IDENTIFIER('parquet.`/p`')", "identifier('parquet.' || '`/p`')"]
)
def test_clauses_in_names_are_evaluated(name):
    assert "/p" in {each.text for each in find_name_paths(name)}


def test_name_that_only_spark_can_compute_is_an_unknown_path():
    assert UNKNOWN in {each.text for each in find_name_paths("identifier(lower('PARQUET.`/p`'))")}
    assert UNKNOWN in {each.text for each in find_name_paths(r"identifier(lower('parquet.\u0060\u002fp\u0060'))")}


@pytest.mark.parametrize("key", ["path", "'path'", "'pa' 'th'", r"'p\u0061th'", "a.path"])
def test_key_of_an_option_is_read_as_spark_reads_it(key):
    for value in ("'/p'", "= '/p'", "= '/' 'p'", "= '/' || 'p'"):
        if key == "'pa' 'th'" and "=" not in value:
            continue  # Spark reads three adjacent strings
        assert "/p" in paths(f"create table t using csv options ({key} {value}, sep ',')"), value


def test_items_of_the_option_paths_are_paths():
    for value in ('\'["/p", "/q"]\'', '= \'["/p", "/q"]\'', "= '[\"/p\",' || '\"/q\"]'"):
        assert {"/p", "/q"} <= paths(f"create table t using csv options (paths {value})"), value
    for value in ("[", "1", "{}", "[1]", '[["/p"]]', "[" * 100_000, "[" + "[]," * 1_000_000 + "[]]"):
        assert UNKNOWN in {each.text for each in read_option("Paths", value) if each.use is TextUse.PATH}
    assert {each.text for each in read_option("paths", r'["\u002fp"]')} >= {"/p"}


def test_settings_of_file_systems_are_paths():
    assert "file:///srv" in paths("set fs.viewfs.mounttable.c.link./a=file:///srv")
    assert "file:///srv" in paths("begin set a = 1; set spark.hadoop.fs.viewfs.mounttable.c.link./a=file:///srv; end")
    assert use_of_option("fs.viewfs.mounttable.c.link./a") is TextUse.PATH


def test_adjacent_strings_occupy_memory_in_proportion_to_the_text():
    sql = "create table t using csv options (path " + " ".join(f"r'{'x' * 1000}'" for _ in range(90)) + ")"
    assert sum(len(each.text) for each in find_path_texts(sql)) < 8 * len(sql)


def test_settings_are_values():
    assert "/p" in values("set spark.sql.streaming.checkpointLocation=/p")
    assert "/p" in values("create table t using csv options (sep '/p')")
    assert "/p" in paths("set x=parquet.`/p`") | values("set x=parquet.`/p`")


@pytest.mark.parametrize(
    ("key", "use"),
    [
        ("path", TextUse.PATH),
        ("checkpointLocation", TextUse.PATH),
        ("sourceArchiveDir", TextUse.PATH),
        ("badRecordsPath", TextUse.PATH),
        ("fs.viewfs.mounttable.c.link./lookup", TextUse.PATH),
        ("pathGlobFilter", TextUse.VALUE),
        ("recursiveFileLookup", TextUse.VALUE),
        ("maxFilesPerTrigger", TextUse.VALUE),
        ("sep", TextUse.VALUE),
    ],
)
def test_use_of_an_option(key, use):
    assert use_of_option(key) is use


def test_variables_are_unknown_parts():
    assert paths("select * from parquet.`${p}/x`") == {f"{UNKNOWN}/x", "/x"}


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("create table t using parquet ${k} '/p'", "/p"),
        (r"create table t using parquet ${k} '\u002fp'", "/p"),
        ("create table t using parquet ${k} '/p q'", "/p q"),
        ("create table t using parquet ${k} '/p/${u}'", "/p/"),
        ("create table t using parquet comment '${k}/p'", "/p"),
        ("create table t using parquet /* ${k} location '/p' */", "/p"),
        ("create table t using parquet -- ${k} '/p'", "/p"),
        (r"select 1 -- ${k} '\u002fp'", "/p"),
        ("select * from parquet${d}`/p q`", "/p q"),
        ("${k} jar /p", "/p"),
        ("insert overwrite ${k} '/*/*/*-*' select 1", "/*/*/*-*"),
        ("execute immediate 'create table t ${k} \"/p\"'", "/p"),
    ],
)
def test_guarantee_3_words_and_literals_beside_variables_are_paths(sql, found):
    assert may_contain_path(sql)
    assert found in paths(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select ${a} / 2, a/b from t where b = '${c}'",
        "select /* x */ '${a}' /**/ from t",
        "set a=${b}/p",
    ],
)
def test_operators_beside_variables_are_no_paths(sql):
    fence = PathFence([Path("/p/w")])
    assert not any(fence.refuses(found.text, is_value=found.use is TextUse.VALUE) for found in find_path_texts(sql))


@pytest.mark.parametrize("unit", [":path ", ":jar", "location :a ", "${a}/b ", "'${a}/b', ", "${"])
def test_names_of_parameters_and_variables_take_linear_time(assert_linear_time, unit):
    def find(sql):
        return list(find_path_texts(sql))

    assert_linear_time(find, "select " + unit * 1000, "select " + unit * 8000)


@pytest.mark.parametrize(
    "sql",
    [
        "select 1",
        "select a / b, split(c, '/') from t where d like '/%'",
        "select /*+ broadcast(t) */ * from t join u on t.id = u.id",
        "insert into t values ('/p')",
        "create temporary table t as select '/p' a",
        "with a as (select '/' b) select * from a",
        "select t.`a b` from t",
    ],
)
def test_other_strings_are_not_paths(sql):
    assert not {text for text in paths(sql) | values(sql) if "/" in text}


@pytest.mark.parametrize(
    "value",
    ["concat('/sr', 'v/x')", "= concat('/sr', 'v/x')", "'/' || f('x')", ":p", "?", "upper('/p')", "('/p')", "= a.b"],
)
def test_computed_value_of_a_path_option_is_unknown(value):
    for sql in (
        f"create table t using csv options (header true, path {value}, sep ',')",
        f"create temporary view v using parquet options ('path' {value})",
        f"select * from t with (path {value})",
        f"create table t using csv options (a.path {value})",
    ):
        assert UNKNOWN in paths(sql), sql


def test_known_value_of_a_path_option_is_a_path():
    assert paths("create table t using csv options (path '/' || 'p')") >= {"/p"}
    assert paths("create table t using csv options (path :p)", named={"p": "/p"}) == {"/p"}
    for sql in (
        "create table t using csv options (sep concat('a', 'b'), header true, 'path' '/p')",
        'create table t using csv options ("path" "/p")',
        "create table t using csv options (path = '/p', maxRecordsPerFile 5, useArchive = true, x.location.y 'z')",
        "create table t using csv options (path '/' 'p') tblproperties (a.b = 'c')",
    ):
        assert UNKNOWN not in paths(sql), sql


def test_paths_of_later_statements_are_found():
    sql = "begin set a = /one; add jar /two/with blank; set b = /three; add file /four;five; end"
    found = {each.text: each.use for each in find_path_texts(sql)}
    assert found["/one"] is TextUse.VALUE
    assert {"/two/with blank", "/four", "/four;five; end"} <= {
        text for text, use in found.items() if use is TextUse.ADDED
    }
    assert "/three" in found


def test_names_have_qualifiers():
    (found,) = find_name_paths("dfs.tmp.`a/b`")
    assert (found.text, found.qualifier) == ("a/b", ("dfs", "tmp"))
    assert list(find_name_paths("db.t")) == []


def test_ordinary_statements_are_not_tokenized():
    for sql in ("select 1", "select a.b from a where c = '/x'", "show tables", "create temporary table t as select 1"):
        assert not may_contain_path(sql)


@pytest.mark.parametrize(
    "text",
    [
        *("parquet.`", ".`a", "'/x' ", "set ", "immediate 'x' || ", "${", "options (", "with ("),
        *("; add jar /a", "; set a = /b", "; add jar '/a", ";add", ";add jar", "; identifier(identifier('/a' "),
        *("identifier(f(", "identifier('/a' || ", "${ ", "a=/${", "}${"),
    ],
)
def test_long_texts_take_linear_time(text, assert_linear_time):
    small, large = ("location " + text * count for count in (500, 4000))
    assert_linear_time(lambda sql: list(find_path_texts(sql)), small, large)


PIECES = st.sampled_from(
    [
        *(
            "parquet",
            ".",
            "`",
            "`/p`",
            "'",
            '"',
            "'/p'",
            '"/p"',
            "r'/p'",
            "$$/p$$",
            "$a$",
            "\\",
            "''",
            "/*",
            "*/",
            "--",
        ),
        *(
            "\n",
            " ",
            "(",
            ")",
            ",",
            ";",
            "=",
            ":p",
            "?",
            "||",
            "${x}",
            "identifier(",
            "location ",
            "options (",
            "with (",
        ),
        *("add jar ", "set x=", "execute immediate ", "begin ", "copy ", "refresh ", "\0", "\u0131", "\ufffc", "1e5"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=5))
def test_any_text_is_searched_without_error(text, value):
    parameters = Parameters.of_statement(text, {"p": value}, [value])
    fence = PathFence([Path("/srv/tmp"), "s3://bucket/tmp"])
    for found in [*find_path_texts(text, parameters), *find_name_paths(text)]:
        fence.refuses(found.text)
        fence.refuses_real(found.text)


@given(st.text("/*?[]{},\\.:ab%2F~$ \0", max_size=40))
def test_any_path_is_decided_without_error(path):
    fence = PathFence([Path("/a/b"), "s3://a/b"])
    fence.refuses(path)
    fence.refuses_real(path)
    assert fence.refuses(f"/a/b/{path.replace('..', '')}") or ".." in path or "\\" in path


@pytest.mark.parametrize("count", [10_000, 40_000])
def test_paths_of_many_added_files_have_a_limited_length(count):
    found = list(find_path_texts("begin " + "do add " * count + "jar /x; end"))
    assert sum(len(each.text) for each in found) < 80 * count
    assert any(each.text == UNKNOWN for each in found), "the rest is refused"


@pytest.mark.parametrize("blanks", [" ", " " * 5_000, "/* a b */ ", "\n"])
def test_path_of_an_added_file_is_found_after_any_blanks(blanks):
    found = [each.text for each in find_path_texts(f"add{blanks}jar{' ' * len(blanks)}'/secret dir/x';")]
    assert "/secret dir/x" in found
    long = [each.text for each in find_path_texts("add jar " + "'" * 2 * MAX_PATH_CHARACTERS + "/secret dir/x")]
    assert any(len(text) > MAX_PATH_CHARACTERS for text in long), "it is refused for its length"


@pytest.mark.parametrize("offset", range(-8, 3))
@pytest.mark.parametrize("end", ["with   (path = '/x')", "with" + " " * 70_000 + "(path = '/x')", "x://", "a.\n`/x`"])
def test_path_is_found_wherever_it_begins_in_a_long_text(offset, end):
    assert may_contain_path("select " + "a" * (32 * 1024 - 8 + offset) + " " + end)


_REPEATED = {
    "name": "select * from identifier({}) -- `",
    "text": "execute immediate {}",
    "text in a text": "execute immediate 'execute immediate :b||:b||:b||:b using 1' using {} as b",
    "value of an option": "create table t using csv options (path {})",
    "many names": "select identifier(:a), " * 200 + "{}",
}


@pytest.mark.parametrize("statement", _REPEATED.values(), ids=_REPEATED)
def test_repeated_parameters_take_linear_time_or_are_refused(statement, assert_linear_time):
    def search(sql):
        try:
            list(find_path_texts(sql, Parameters.of_statement(sql, {"a": " set x = '/y'" * (len(sql) // 13)})))
        except GatewayError as error:
            assert error.condition == "LODGE_VALUES_TOO_LONG"

    small, large = (statement.format("||".join([":a"] * count)) for count in (250, 2_000))
    assert_linear_time(search, small, large)


def test_ordinary_repetition_is_not_refused():
    sql = "select * from identifier(:a) " * 50 + "; execute immediate :a || :a || ' from ' || :a"
    assert list(find_path_texts(sql, Parameters.of_statement(sql, {"a": "some_catalog.some_schema.`/some/table`"})))


def test_nested_names_take_linear_time(assert_linear_time):
    small, large = ("set x = " + "identifier(f(" * count + "'/a'" + "))" * count for count in (250, 2_000))
    assert_linear_time(lambda sql: list(find_path_texts(sql)), small, large)


def test_parameter_is_an_argument():
    sql = "execute immediate 'select * from identifier(?)' using :p"
    assert "/tmp/x" in paths(sql, named={"p": "parquet.`/tmp/x`"})
