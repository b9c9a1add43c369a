"""The JSON reader: layouts, type conflicts, invalid JSON and splits."""

import io
import json
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DuplicateColumnError, EngineError, ScanOptionError, SchemaConflictError, ValueConversionError
from engine.readers.byte_arrays import as_byte_array
from engine.readers.json_objects.json_options import JsonOptions, Layout
from engine.readers.json_objects.json_reader import JsonReader
from engine.readers.json_objects.object_blocks import open_objects
from engine.readers.json_objects.object_parser import ObjectParser, RequestedColumns
from engine.readers.json_objects.positions import ObjectPositions
from engine.readers.lines import Block
from engine.readers.reader_errors import FormatError
from engine.scan.reader import SourceFile
from engine.schema import LATE, TupleSchema

blocks = st.integers(16, 200).map(lambda size: partial(JsonReader, block_bytes=size))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts


def columns_of_types(names):
    """Draw objects in which each name has one type. Any member may be missing."""
    kinds = [
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
        st.sampled_from(["2020-01-01", "2020-01-01T00:00:00Z", ""]),
        st.lists(st.integers(-9, 9), max_size=3),
        st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9), "y": texts}),
        st.lists(st.fixed_dictionaries({}, optional={"x": texts}), max_size=3),
    ]
    chosen = st.fixed_dictionaries({name: st.sampled_from(kinds) for name in names})
    return chosen.flatmap(lambda kind: st.lists(st.fixed_dictionaries({}, optional=kind), max_size=12))


def without_nulls(value):
    """Remove null members, which are equal to missing members."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


layouts = {
    "lines": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "pretty": lambda rows: "\n".join(json.dumps(row, indent=1, ensure_ascii=False) for row in rows),
    "array": lambda rows: json.dumps(rows, indent=2),
    "joined": lambda rows: "".join(json.dumps(row) for row in rows),
}


@pytest.mark.parametrize("layout", layouts)
@given(rows=columns_of_types("abc"), make_reader=blocks)
@settings(max_examples=30)
def test_written_objects_are_read_back(memory_file, layout, rows, make_reader):
    file = memory_file("a.json", layouts[layout](rows), make_reader)
    schema = file.discover()
    provided = {field.name: field.type for field in schema if field.type != pa.null()}
    found = file.rows(provided=provided)
    # A struct without members differs from a missing struct. A null member equals a missing member.
    assert [without_nulls(row) for row in found] == [without_nulls(row) for row in rows]


@given(rows=columns_of_types("ab"), target_bytes=st.integers(1, 200))
@settings(max_examples=30)
def test_splits_have_each_row_once(memory_file, rows, target_bytes):
    file = memory_file("a.jsonl", layouts["lines"](rows))
    provided = {field.name: field.type for field in file.discover() if field.type != pa.null()}
    found = file.split_rows(target_bytes, provided=provided)
    assert [without_nulls(row) for row in found] == [without_nulls(row) for row in rows]


def test_lines_before_a_split_are_counted_once(memory_file):
    file = memory_file("a.jsonl", '{"a":1}\n' * 1000, all_text=True)
    split = file.splits(4000)[-1]
    opened = []
    counting = replace(split, open=lambda: opened.append(split) or split.open())
    assert len(file.rows(split=counting)) == 500
    assert len(opened) == 2


def test_only_lines_are_split(memory_file):
    rows = [{"a": number} for number in range(100)]
    assert len(memory_file("a.json", layouts["lines"](rows)).splits(100)) > 1
    for layout in ("pretty", "array"):
        assert len(memory_file("a.json", layouts[layout](rows)).splits(100)) == 1


def test_dates_in_text_stay_text(memory_file):
    schema = memory_file("a.json", '{"t":"2020-01-01"}\n{"t":"2020-01-01T00:00:00Z"}\n').discover()
    assert schema.find("t").type == pa.string()


def test_column_of_nulls_is_late(memory_file):
    assert memory_file("a.json", '{"a":null,"l":[]}').discover().to_arrow() == pa.schema(
        [("a", pa.null()), ("l", pa.list_(pa.null()))]
    )


def test_arrays_that_contain_only_nulls_keep_their_length(memory_file):
    rows = [{"l": [None, None], "s": {"l": [None] * 3}}, {"l": [], "s": {"l": []}}, {"l": [None], "s": None}]
    assert memory_file("a.json", "".join(json.dumps(row) + "\n" for row in rows)).rows() == rows


def test_column_may_first_appear_late(memory_file):
    text = '{"a":1}\n' * 3000 + '{"a":2,"b":{"c":[1.5]}}\n'
    rows = memory_file("a.json", text).rows()
    assert rows[-1] == {"a": 2, "b": {"c": [1.5]}}
    assert len(rows) == 3001


# Type conflicts


@pytest.mark.parametrize(
    ("values", "policy", "outcome"),
    [
        (["1", "1.5"], "widen", [1.0, 1.5]),
        (["1", "1.5"], "error", "column 'a' is double here, but bigint"),
        (["1.5", "1"], "error", "column 'a' is bigint here, but double"),
        (["1", '"x"'], "widen", "line 2: column 'a' is string here, but bigint"),
        (["1", '"x"'], "text", ["1", "x"]),
        (["1.50", '"x"'], "text", ["1.50", "x"]),
        (["true", "1"], "text", ["true", "1"]),
        (['{"b": 1.0}', "[2.50, null]"], "text", ['{"b":1.0}', "[2.50,null]"]),
        (["null", '{"b":1}'], "error", [None, {"b": 1}]),
        (['{"b":1}', '{"b":1,"c":2}'], "error", [{"b": 1, "c": None}, {"b": 1, "c": 2}]),
        (['[1, "x"]', "[2]"], "text", [["1", "x"], ["2"]]),
        (['{"b":[1]}', '{"b":["x"]}'], "widen", "column 'a.b' is string here"),
        (["1", "18446744073709551615"], "widen", [Decimal(1), Decimal(18446744073709551615)]),
        (["18446744073709551615", "1.5"], "widen", "column 'a' is double here, but decimal"),
    ],
)
def test_type_conflict_policy_decides_on_mixed_types(memory_file, values, policy, outcome):
    file = memory_file("a.json", "".join(f'{{"a":{value}}}\n' for value in values), on_type_conflict=policy)
    if isinstance(outcome, str):
        with pytest.raises(SchemaConflictError, match=outcome):
            file.discover()
    else:
        assert [row["a"] for row in file.rows()] == outcome


def test_integer_that_is_not_exact_as_double_is_rejected(memory_file):
    with pytest.raises(ValueConversionError, match=r"line 1: column 'a' .*9007199254740993"):
        memory_file("a.json", '{"a":9007199254740993}\n{"a":1.5}\n').discover()
    assert memory_file("a.json", '{"a":9007199254740992}\n{"a":1.5}\n').rows()[0] == {"a": 2.0**53}


def test_all_text_keeps_numbers_as_written(memory_file):
    text = '{"a":1.10,"b":[1e3,null],"c":{"d":true}}\n'
    assert memory_file("a.json", text, all_text=True).rows() == [{"a": "1.10", "b": ["1e3", None], "c": {"d": "true"}}]


def test_promised_text_keeps_numbers_as_written(memory_file):
    rows = memory_file("a.json", '{"a":1.10}\n{"a":"x"}\n').rows(provided={"a": pa.string()}, columns=["a"])
    assert [row["a"] for row in rows] == ["1.10", "x"]


def test_promised_decimals_keep_all_digits(memory_file):
    rows = memory_file("a.json", '{"a":1.10}\n{"a":12345678901234567.89}\n').rows(provided={"a": pa.decimal128(20, 2)})
    assert [row["a"] for row in rows] == [Decimal("1.10"), Decimal("12345678901234567.89")]


def test_conflict_in_an_unread_column_is_ignored(memory_file):
    assert memory_file("a.json", '{"a":1,"b":1}\n{"a":2,"b":"x"}\n').rows(columns=["a"]) == [{"a": 1}, {"a": 2}]


# Names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,"A":2}', "line 1: column 'A' exists twice: 'a'"),
        ('{"a":1,"a":2}', "line 1: column 'a' exists twice: 'a'"),
        ('{"a":1}\n{"A":2}', "column 'A' exists twice: 'a'"),
        ('{"m":{"a":1}}\n{"m":{"A":2}}', "column 'm.A' exists twice: 'm.a'"),
    ],
)
def test_names_that_differ_only_by_case_are_rejected(memory_file, text, message):
    with pytest.raises(DuplicateColumnError, match=message):
        memory_file("a.json", text).discover()


def test_max_columns_limits_the_number_of_names(memory_file):
    row = {f"c{number}": number for number in range(1000)}
    assert memory_file("a.json", json.dumps(row)).rows() == [row]
    unlike = "".join(f'{{"k{number}":{number}}}\n' for number in range(3000))
    with pytest.raises(FormatError, match="more than 1,000 column names"):
        memory_file("a.json", unlike, max_columns=1000).discover()


# Invalid JSON


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ('{"a":1}\n{"a":\n', "line 2", "not JSON"),
        ('{"a":1}\nnull\n', "line 2", "must be an object"),
        ("null\n", "line 1", "must be an object"),
        ("7", "line 1", "must be an object"),
        ('{"a":1}\n\n{"a":1} x\n', "line 3", "not JSON"),
        ('{"a":"x"}\n{"a":"\\ud800"}\n', "lines 1 to 2", "surrogate"),
        ('[{"a":1},\n{"a":}]', "object 2", "not JSON"),
        ('[{"a":1}', "object 2", "ends inside the array"),
        ('[{"a":1},', "object 2", "ends inside the array"),
        ('[{"a":1} {"a":2}]', "object 2", "',' is missing"),
        ('[{"a":1}] x', "object 2", "text after the array"),
        ("[1]", "object 1", "must be an object"),
        ('{"a":\n1}\n{"a":', "object 2", "not JSON"),
        ('{"a":' + "[" * 5000 + "]" * 5000 + "}", "line 1", "nested deeper"),
        ('{"a":' + "[" * 150 + "]" * 150 + "}", "line 1", "nested deeper"),
        ('{"x":"' + "]" * 500 + '","a":' + "[" * 150 + "]" * 150 + "}", "line 1", "nested deeper"),
        ('[{"a":' + "[" * 5000 + "]" * 5000 + "}]", "object 1", "nested deeper"),
        ('{"a":1e999}', "line 1", "double"),
    ],
)
def test_invalid_json_is_rejected_with_its_position(memory_file, text, position, problem):
    for do in ("discover", "rows"):
        with pytest.raises(EngineError, match=problem) as caught:
            getattr(memory_file("x/a.json", text), do)()
        assert f"'x/a.json' in workspace 'dfs', {position}:" in str(caught.value)


def test_invalid_utf_8_is_rejected_with_its_line(memory_file):
    with pytest.raises(FormatError, match="line 2: the bytes are not UTF-8"):
        memory_file("a.json", b'{"a":1}\n{"a":"\xff"}\n').discover()


@pytest.mark.parametrize(
    ("policy", "values", "warning"),
    [("skip", [1, 3], "2 malformed lines were skipped"), ("null", [1, None, None, 3], "2 malformed lines became rows")],
)
def test_malformed_policy_skips_lines_or_sets_null(memory_file, caplog, policy, values, warning):
    file = memory_file("a.json", '{"a":1}\n{"a":\nnull\n{"a":3}\n', malformed=policy, layout="lines")
    assert [row["a"] for row in file.rows()] == values
    assert warning in caplog.text
    assert sum(batch.num_rows for batch in file.batches(columns=[])) == len(values)


def test_object_above_max_line_bytes_is_rejected(memory_file):
    long = '{"a":"' + "x" * 3000 + '"}'
    for text in ('{"a":""}\n' + long, '[{"a":""},' + long + "]", '{"a":\n""}' + long):
        with pytest.raises(FormatError, match=r"(line|object) 2: it is longer than 1,024 bytes"):
            memory_file("a.json", text, max_line_bytes=1024).rows()


@pytest.mark.parametrize("text", ["", "\n \n", "[]", " [ ]\n", "\ufeff[]"])
def test_file_without_objects_has_no_rows(memory_file, text):
    file = memory_file("a.json", text)
    assert (len(file.discover()), file.rows()) == (0, [])


def test_rows_are_counted_without_columns(memory_file):
    for text in ('{"a":1}{"a":2}\n\n{"a":"x"}', '[{"a":1},{"b":2},{}]', '{"a":\n1}{}{}'):
        assert sum(batch.num_rows for batch in memory_file("a.json", text).batches(columns=[])) == 3


seeds = [
    b'{"a":1,"b":{"c":[1,2.5,null]},"s":"x\\u00e9\\"y"}\n{"a":null,"s":"z"}\n{"b":{"c":[]}}\n',
    b'[{"a":1,"b":{"c":[1,2.5]}},\n {"a":null,"s":"z"}]',
    b'{"a":\n1}\n{"a": 2, "b":[{}, null]}',
]
edits = st.lists(st.tuples(st.integers(0, 80), st.binary(max_size=3), st.integers(0, 3)), min_size=1, max_size=3)


@given(seed=st.sampled_from(seeds), edits=edits, make_reader=blocks)
@settings(max_examples=150)
def test_corrupt_file_gives_rows_or_engine_error(memory_file, seed, edits, make_reader):
    for position, inserted, removed in edits:
        seed = seed[:position] + inserted + seed[position + removed :]
    expect_rows_or_engine_error(memory_file("a.json", seed, make_reader))


@given(data=st.binary(max_size=80) | st.text('{}[]":,1 \nnul', max_size=40).map(str.encode))
@settings(max_examples=150)
def test_any_bytes_give_rows_or_engine_error(memory_file, data):
    expect_rows_or_engine_error(memory_file("a.json", data))


def expect_rows_or_engine_error(file):
    try:
        file.discover()
        file.rows()
    except EngineError as error:
        assert "\n" not in str(error)


LINE = '{"a": 1, "b": "x", "c": [1]}\n'
MEMORY = SourceFile("dfs", "a.json", 0, io.BytesIO)
SMALL_BLOCKS = partial(JsonReader, block_bytes=64)


@pytest.mark.parametrize(
    "late",
    ['{"b": "y", "c": [2]}\n', '{"a": null, "b": "y"}\n', '{"a": 2}\n', '{"a": 2, "b": 5, "c": "not an array"}\n'],
)
def test_projected_column_is_read_right_beside_any_other(memory_file, late):
    file = memory_file("a.json", LINE * 20 + late + LINE * 20, SMALL_BLOCKS)
    rows = [{"a": 1}] * 20 + [{"a": json.loads(late).get("a")}] + [{"a": 1}] * 20
    assert file.rows(columns=["a"], provided={"a": pa.int64()}) == rows


def test_projected_column_in_another_case_is_rejected(memory_file):
    file = memory_file("a.json", LINE * 20 + '{"A": 2, "b": "y"}\n' + LINE * 20, SMALL_BLOCKS)
    with pytest.raises(DuplicateColumnError, match="line 21: column 'A' exists twice: 'a'"):
        file.rows(columns=["a"], provided={"a": pa.int64()})


def test_late_column_is_read_beside_unread_ones(memory_file):
    file = memory_file("a.json", LINE * 20 + '{"a": 2, "b": "y", "D": 5}\n' + LINE * 20, SMALL_BLOCKS)
    rows = file.rows(columns=["a", "d"], provided={"a": pa.int64(), "d": pa.int64()})
    assert [row for row in rows if row["d"] is not None] == [{"a": 2, "d": 5}]
    assert len(rows) == 41


def test_concurrent_attempt_uses_one_whole_plan():
    attempts = []

    def is_projected(name):
        attempts.append(parser.attempt(block_of('{"a": 1, "b": "x"}\n')))
        return name == "a"

    requested = RequestedColumns(is_projected, lambda _: None, TupleSchema([pa.field("a", LATE)]))
    parser = ObjectParser(ObjectPositions(MEMORY), JsonOptions(), requested)
    for text in ('{"a": 1, "b": "y"}\n', '{"a": 1.5, "b": "y"}\n'):
        assert sum(table.num_rows for table in parser.tables(block_of(text))) == 1
    tables = [(one.wanted, one.table) for one in attempts if one.table is not None]
    assert tables
    assert all(
        table.schema.field(name) == wanted.field(name) for wanted, table in tables for name in table.schema.names
    )


def test_file_is_closed_after_a_failed_open():
    raw = io.BytesIO(b"{}")
    file = SourceFile("dfs", "a.json.gz", 2, lambda: raw)
    with pytest.raises(FormatError, match="cannot be decompressed"):
        open_objects(file, JsonOptions(layout=Layout.ARRAY))
    assert raw.closed


def block_of(text):
    return Block.of(as_byte_array(text.encode()), 1)


# Encodings


@pytest.mark.parametrize(
    "text",
    [
        '{"é":"ü","n":1}\n{"é":"ÿ","n":2}\n',
        '{"é":"ü",\n"n":1}\n{"é":"ÿ",\n"n":2}\n',
        '[{"é":"ü","n":1},{"é":"ÿ","n":2}]',
    ],
    ids=["lines", "concatenated", "array"],
)
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_other_encodings_are_read_in_each_layout(memory_file, text, encoding):
    file = memory_file("a.json", text.encode(encoding), encoding=encoding)
    assert file.rows() == [{"é": "ü", "n": 1}, {"é": "ÿ", "n": 2}]
    assert [field.name for field in file.discover()] == ["é", "n"]


def test_file_in_another_encoding_is_not_split(memory_file):
    lines = '{"a":"é"}\n' * 100
    assert len(memory_file("a.json", lines.encode(), encoding="UTF8").splits(100)) > 1
    assert len(memory_file("a.json", lines.encode("latin-1"), encoding="latin-1").splits(100)) == 1
    assert len(memory_file("a.json", lines.encode("latin-1"), encoding="latin-1").split_rows(100)) == 100


@pytest.mark.parametrize("text", ['{"a":"é"}\n', '[{"a":"é"}]'])
def test_wrong_encoding_is_an_error_with_the_way_out(memory_file, text):
    with pytest.raises(FormatError, match="not utf-16"):
        memory_file("a.json", text.encode(), encoding="utf-16").rows()
    with pytest.raises(FormatError, match="not UTF-8; specify the option 'encoding'"):
        memory_file("a.json", text.encode("latin-1")).rows()
    with pytest.raises(ScanOptionError, match="'encoding' of a scan cannot be 'utf-17': is not a text encoding"):
        memory_file("a.json", text, encoding="utf-17").rows()
