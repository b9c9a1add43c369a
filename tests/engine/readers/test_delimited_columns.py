"""Delimited text with a header: names, types, ragged rows and malformed values."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DuplicateColumnError, ValueConversionError
from engine.readers.reader_errors import FormatError


def test_columns_are_text_by_default(memory_file):
    file = memory_file("a.csv", "a,B\n1,\n", header=True)
    assert file.discover().to_arrow() == pa.schema([("a", pa.string()), ("B", pa.string())])
    assert file.rows() == [{"a": "1", "B": ""}]


def test_names_that_differ_only_by_case_are_rejected(memory_file):
    with pytest.raises(DuplicateColumnError, match=r"line 2: column 'ID' exists twice: 'id'"):
        memory_file("a.csv", "# note\nid,ID\n", header=True, comment="#").discover()


def test_empty_column_name_becomes_its_number(memory_file):
    assert memory_file("a.csv", "a,,c\n", header=True).discover().names == ["a", "column_2", "c"]


def test_header_may_contain_quoted_line_ends(memory_file):
    file = memory_file("a.csv", 'skipped "\n"a\nb",c\n1,2\n', header=True, skip_lines=1)
    assert file.rows() == [{"a\nb": "1", "c": "2"}]


def test_empty_file_has_no_columns(memory_file):
    file = memory_file("a.csv", "\n", header=True)
    assert (len(file.discover()), file.rows()) == (0, [])


@pytest.mark.parametrize(
    "text", ["1.5", " 1.5\t", '" 1.5"', "+1.50", "15e-1", "001.500000", "0" * 80 + "1.5" + "0" * 80, ""]
)
def test_text_of_a_decimal_may_have_spaces_and_exponents(memory_file, text):
    rows = memory_file("a.csv", f"x,y\n{text},\n", header=True).rows(provided={"x": pa.decimal128(5, 2)})
    assert rows == [{"x": Decimal("1.5") if text else None, "y": ""}]


@pytest.mark.parametrize(
    "text",
    [
        " ",
        '" "',
        "1.5x",
        "1,5",
        "1e-999999999",
        "1e-9999999999999999999",
        "1e0x2",
        "0e+-1",
        "1_0e1",
        "\uff11e1",
        ".e1",
        "1e40",
        "1" * 80,
        "0x1F",
        "1 5",
        "1.234",
        "Infinity",
        "NaN",
    ],
)
def test_text_that_is_no_decimal_is_refused(memory_file, text):
    with pytest.raises(ValueConversionError, match="line 3: column 'x'"):
        memory_file("a.csv", f"x;y\n1;\n{text};\n", header=True, delimiter=";").rows(
            provided={"x": pa.decimal128(5, 2)}
        )


def test_text_converts_to_promised_types(memory_file):
    text = "i,d,b,t,x,e,s\n1,1.5,true,2024-01-02T03:04:05,1.10,2024-01-02,y\n,,,,,,\n"
    types = {
        "i": pa.int32(),
        "d": pa.float64(),
        "b": pa.bool_(),
        "t": pa.timestamp("us"),
        "x": pa.decimal128(5, 2),
        "e": pa.date32(),
    }
    first, second = memory_file("a.csv", text, header=True).rows(provided=types)
    assert first == {
        "i": 1,
        "d": 1.5,
        "b": True,
        "t": datetime.datetime(2024, 1, 2, 3, 4, 5),
        "x": Decimal("1.10"),
        "e": datetime.date(2024, 1, 2),
        "s": "y",
    }
    assert set(second.values()) == {None, ""}


@pytest.mark.parametrize("quoted", ["", '"'])
def test_conversion_error_names_line_and_column(memory_file, quoted):
    text = "a,b\n" + "".join(f"{quoted}{number}{quoted},x\n" for number in range(500)) + "7x,y\n8,z\n"
    with pytest.raises(
        ValueConversionError, match=r"'a.csv' .*line 502: column 'a' must be bigint, but the value is '7x'"
    ):
        memory_file("a.csv", text, header=True).rows(provided={"a": pa.int64()})


def test_malformed_policy_skips_rows_or_sets_null(memory_file, caplog):
    text = "a,b\n1,x\nno,y\n3\n4,z\n"
    types = {"a": pa.int64()}
    skipped = memory_file("a.csv", text, header=True, malformed="skip").rows(provided=types)
    assert skipped == [{"a": 1, "b": "x"}, {"a": 4, "b": "z"}]
    assert "'a.csv' in workspace 'dfs': 2 malformed rows were skipped" in caplog.text
    nulled = memory_file("a.csv", text, header=True, malformed="null").rows(provided=types)
    assert nulled == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}, {"a": 4, "b": "z"}]
    assert "2 malformed values were set to null" in caplog.text


@pytest.mark.parametrize(
    ("ragged", "row", "outcome"),
    [
        ("error", "1", "line 2: the row has 1 fields, but the header has 2"),
        ("error", "1,2,3", "line 2: the row has 3 fields, but the header has 2"),
        ("null", "1", {"a": "1", "b": None}),
        ("null", "1,2,3", "line 2: the row has 3 fields"),
        ("truncate", "1", {"a": "1", "b": None}),
        ("truncate", "1,2,3", {"a": "1", "b": "2"}),
    ],
)
def test_ragged_policy_decides_on_ragged_rows(memory_file, caplog, ragged, row, outcome):
    file = memory_file("a.csv", f"a,b\n{row}\n", header=True, ragged=ragged)
    if isinstance(outcome, str):
        with pytest.raises(FormatError, match=outcome):
            file.rows()
    else:
        assert file.rows() == [outcome]
        assert ("1 rows had more fields than the header" in caplog.text) == (row == "1,2,3")


@pytest.mark.parametrize(("empty", "value"), [("text", ""), ("null", None)])
def test_empty_value_option_applies_on_both_parsing_paths(memory_file, empty, value):
    plain = 'a,b\n1,\n2,""\n'
    for text in (plain, plain + "3\n"):  # a ragged row makes the reader parse all rows with Python
        rows = memory_file("a.csv", text, header=True, empty_value=empty, ragged="null").rows()
        assert [row["b"] for row in rows[:2]] == [value, value]


def test_only_projected_columns_are_converted(memory_file):
    file = memory_file("a.csv", "a,b\nx,1\n", header=True)
    assert file.rows(columns=["b"], provided={"a": pa.int64(), "b": pa.int64()}) == [{"b": 1}]


def test_column_names_ignore_case(memory_file):
    assert memory_file("a.csv", "Ab,c\n1,2\n", header=True).rows(columns=["aB"]) == [{"aB": "1"}]


def test_rows_are_counted_without_columns(memory_file):
    text = "a,b\n1,x\n\n2,y\r\n\r\n3,z"
    for plain in (text, text + '\n"4",w\n'):
        batches = memory_file("a.csv", plain, header=True).batches(columns=[])
        assert sum(batch.num_rows for batch in batches) == len(memory_file("a.csv", plain, header=True).rows())


def test_thousand_columns_are_read(memory_file):
    names = [f"c{number}" for number in range(1000)]
    row = memory_file("a.csv", ",".join(names) + "\n" + ",".join(names) + "\n", header=True).rows()
    assert row == [dict(zip(names, names, strict=True))]


fields = st.sampled_from(["1", "-2", "", "x", "1.5", " 3", "9999999999", "007", '"4"', "true"])


@given(values=st.lists(fields, min_size=1, max_size=12), type_=st.sampled_from([pa.int32(), pa.float64(), pa.bool_()]))
def test_block_conversion_equals_row_conversion(memory_file, values, type_):
    """Guarantee 1 of ``engine.readers.delimited.conversion``. A ragged last row makes the reader convert row by row."""
    text = "a,b\n" + "".join(f"{value},\n" for value in values)
    provided = {"a": type_}

    def outcome(text):
        try:
            return memory_file("a.csv", text, header=True, ragged="null").rows(provided=provided)[: len(values)]
        except ValueConversionError as error:
            return str(error)

    assert outcome(text) == outcome(text + "\n1\n")
