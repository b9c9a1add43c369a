"""Numbers in comments are the guarantees of ``engine.readers.delimited.rows``."""

import csv
import io
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, ScanOptionError
from engine.readers.delimited.delimited_reader import DelimitedReader
from engine.readers.reader_errors import FormatError
from engine.scan.scan import Scan, ScanInput, ScanPlan

characters = st.characters(codec="utf-8", exclude_characters="\0")
values = st.text(st.sampled_from("ab,|\t\"'\r\n é€😀\u2028\x85") | characters, max_size=6)
tables = st.lists(st.lists(values, min_size=1, max_size=4), max_size=20)
blocks = st.integers(16, 60).map(lambda size: partial(DelimitedReader, block_bytes=size))


def columns_of(rows):
    return [row["columns"] for row in rows]


# 1: the rows


@given(
    table=tables,
    written=st.fixed_dictionaries(
        {
            "delimiter": st.sampled_from(",|\t"),
            "lineterminator": st.sampled_from(["\n", "\r\n"]),
            "quoting": st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        }
    ),
    make_reader=blocks,
)
def test_rows_written_by_python_csv_are_read_back(memory_file, table, written, make_reader):
    # Python's writer quotes a carriage return only if the line ends contain one.
    has_return = any("\r" in value for row in table for value in row)
    assume(written["quoting"] == csv.QUOTE_ALL or written["lineterminator"] == "\r\n" or not has_return)
    text = io.StringIO(newline="")
    csv.writer(text, **written).writerows(table)
    file = memory_file("a.csv", text.getvalue(), make_reader, delimiter=written["delimiter"])
    assert columns_of(file.rows()) == table


@given(
    table=st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=20),
    line_end=st.sampled_from(["\n", "\r\n"]),
    make_reader=blocks,
)
def test_rows_with_header_are_read_back(memory_file, table, line_end, make_reader):
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows([["x", "y", "z"], *table])
    file = memory_file("a.csv", text.getvalue(), make_reader, header=True)
    assert [list(row.values()) for row in file.rows()] == table


@given(
    text=st.text(st.sampled_from('aé,"\r\n'), max_size=60) | st.text(st.sampled_from('a",\n'), max_size=60),
    make_reader=blocks,
)
@settings(max_examples=200)
def test_any_text_is_read_as_by_python_csv(memory_file, text, make_reader):
    file = memory_file("a.csv", text, make_reader)
    try:
        expected = [row for row in csv.reader(io.StringIO(text, newline="\n"), strict=True) if row]
    except csv.Error:
        with pytest.raises(FormatError, match=r"line \d+"):
            file.rows()
    else:
        assert columns_of(file.rows()) == expected


@given(text=st.text(st.sampled_from('a",\n'), max_size=60), make_reader=blocks)
@settings(max_examples=150)
def test_any_text_with_header_is_read_as_by_python_csv(memory_file, text, make_reader):
    file = memory_file("a.csv", "x,y\n" + text, make_reader, header=True)
    try:
        expected = [row for row in csv.reader(io.StringIO(text, newline="\n"), strict=True) if row]
    except csv.Error:
        expected = None
    if expected is None or any(len(row) != 2 for row in expected):
        with pytest.raises(FormatError, match=r"line \d+"):
            file.rows()
    else:
        assert [list(row.values()) for row in file.rows()] == expected


@pytest.mark.parametrize(
    ("text", "options", "rows"),
    [
        ("# no\na#,b\n#no\n", {"comment": "#"}, [["a#", "b"]]),
        ('"a\n# b",c\n', {"comment": "#"}, [["a\n# b", "c"]]),
        ("a\\,b,c\n", {"escape": "\\"}, [["a,b", "c"]]),
        ("a\\\nb,c\n", {"escape": "\\"}, [["a\nb", "c"]]),
        ('"a,b"\n', {"quote": ""}, [['"a', 'b"']]),
        ("'a,b',c\n", {"quote": "'"}, [["a,b", "c"]]),
        ("a;b\n", {"delimiter": ";"}, [["a", "b"]]),
        ("a\tb\n", {"delimiter": "\\t"}, [["a", "b"]]),
        ("one\ntwo\na,b\n", {"skip_lines": 2}, [["a", "b"]]),
        ("one\n", {"skip_lines": 2}, []),
        ("one\n", {"skip_lines": 10**18}, []),
        ("\ufeffa,b\n", {}, [["a", "b"]]),
        ("\n\na\n\n", {}, [["a"]]),
        ('""\n', {}, [[""]]),
    ],
)
def test_options_define_the_syntax_of_rows(memory_file, text, options, rows):
    file = memory_file("a.csv", text, **options)
    assert columns_of(file.rows()) == rows
    assert sum(batch.num_rows for batch in file.batches(columns=[])) == len(rows)


@pytest.mark.parametrize(("path", "text"), [("a.tsv", "a\tb\n"), ("a.PSV", "a|b\n"), ("a.tbl", "a|b\n")])
def test_suffix_decides_the_delimiter(memory_file, path, text):
    assert columns_of(memory_file(path, text).rows()) == [["a", "b"]]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8-sig"])
def test_other_encodings_are_read(memory_file, encoding):
    text = "é,b\n" * 3 + "c,ü\n"
    rows = columns_of(memory_file("a.csv", text.encode(encoding), encoding=encoding).rows())
    assert rows == [["é", "b"]] * 3 + [["c", "ü"]]


@pytest.mark.parametrize("text", ["a\nb,c,d\n\ne,f\n", '"a"\r\nb,"c",d\n\n"e",f'])
def test_min_fields_ends_short_rows_with_nulls(memory_file, text):
    rows = columns_of(memory_file("a.csv", text, min_fields=2).rows())
    assert rows == [["a", None], ["b", "c", "d"], ["e", "f"]]
    rows = columns_of(memory_file("a.csv", text, min_fields=4).rows())
    assert rows == [["a", None, None, None], ["b", "c", "d", None], ["e", "f", None, None]]
    assert columns_of(memory_file("a.csv", text, min_fields=1).rows()) == [["a"], ["b", "c", "d"], ["e", "f"]]


@given(
    rows=st.lists(st.lists(st.text("ab", min_size=1), min_size=1, max_size=5), max_size=30),
    min_fields=st.integers(0, 1000),
    make_reader=blocks,
)
def test_min_fields_changes_only_short_rows(memory_file, rows, min_fields, make_reader):
    text = "".join(",".join(row) + "\n" for row in rows)
    file = memory_file("a.csv", text, make_reader, min_fields=min_fields)
    assert columns_of(file.rows()) == [row + [None] * (min_fields - len(row)) for row in rows]


def test_min_fields_of_many_short_rows_needs_little_memory(memory_file):
    file = memory_file("a.csv", "a\n" * 50_000, min_fields=1000)
    make = partial(file.format.reader, file.source, file.typed_options)
    before, most_bytes, rows = pa.total_allocated_bytes(), 0, 0
    for batch in Scan([ScanInput(file.source, make)], ScanPlan("a.csv"), file.source.context).batches():
        most_bytes = max(most_bytes, pa.total_allocated_bytes() - before)
        rows += batch.num_rows
    assert rows == 50_000
    assert most_bytes < 100 * 1024 * 1024  # all rows at once have twice as much


def test_min_fields_requires_files_without_a_header(memory_file):
    with pytest.raises(ScanOptionError, match="min_fields requires files without a header; with a header, use ragged"):
        memory_file("a.csv", "a,b\n1\n", min_fields=2, header=True).rows()
    with pytest.raises(
        ScanOptionError, match="'min_fields' of a scan cannot be '1001': must be at least 0 and at most"
    ):
        memory_file("a.csv", "a\n", min_fields=1001).rows()


# 3: invalid text


@pytest.mark.parametrize(
    ("data", "line", "problem"),
    [
        (b"a,b\n\xff,b\n", 2, "not UTF-8"),
        (b"a,b\nc,\0\n", 2, "a zero byte"),
        ("a,b\n".encode("utf-16-le"), 1, "a zero byte"),
        (b'a,b\n\n"c\nd', 3, "never closed"),
        (b'a\n"b"c\n', 2, "continues after its closing quote"),
        (b"a\nb\rc\n", 2, "carriage return"),
    ],
)
@pytest.mark.parametrize("header", [False, True])
def test_invalid_text_is_rejected_with_its_line(memory_file, data, line, problem, header):
    with pytest.raises(FormatError, match=problem) as caught:
        memory_file("x/a.csv", data, header=header).rows()
    assert caught.value.path == "x/a.csv"
    assert caught.value.position == f"line {line}"


def test_row_above_max_line_bytes_is_rejected(memory_file):
    for text in ("a\n" + "b" * 2000, 'a\n"' + "b\n" * 2000 + '"\n'):
        with pytest.raises(FormatError, match="line 2: it is longer than 1,024 bytes"):
            memory_file("a.csv", text, max_line_bytes=1024).rows()


def test_bytes_of_another_encoding_are_rejected(memory_file):
    with pytest.raises(FormatError, match="not utf-16"):
        memory_file("a.csv", b"\xff\xfea\x00,", encoding="utf-16").rows()


# splits


@given(
    lines=st.lists(st.text(st.sampled_from("abé,"), max_size=12), max_size=40),
    target_bytes=st.integers(1, 200),
    line_end=st.sampled_from(["\n", "\r\n"]),
    make_reader=blocks,
)
@pytest.mark.parametrize("header", [False, True])
def test_splits_have_each_row_once(memory_file, header, lines, target_bytes, **drawn):
    line_end = drawn["line_end"]
    text = line_end.join(["x", *[line.replace(",", "") for line in lines]] if header else ["x", *lines])
    file = memory_file("a.csv", text, drawn["make_reader"], header=header, multiline=False)
    assert file.split_rows(target_bytes) == file.rows()


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_file_with_quoted_line_ends_is_split_between_rows(memory_file, header, start):
    content = start + 'a,"b"\n' + "".join(f'{number},"line\n""{number}""\n,"\n' for number in range(200))
    file = memory_file("a.csv", content, header=header)
    for target_bytes in (32, 100, 1000, 10_000):
        splits = file.splits(target_bytes)
        assert len(splits) == 1 or len(splits) > len(content) / target_bytes / 4
        assert file.split_rows(target_bytes) == file.rows()
    assert len(file.splits(100)) > 10


def test_file_is_split_only_where_rows_are_certain(memory_file):
    assert len(memory_file("a.csv", "a,b\n" * 100).splits(40)) == 10
    assert len(memory_file("a.csv", '"a",b\n' * 100).splits(40)) == 10
    assert len(memory_file("a.csv", 'a 2" pipe,b\n' * 100).splits(40)) == 1
    assert len(memory_file("a.csv", '"a",b\n' * 100, multiline=False).splits(60)) == 10
    assert len(memory_file("a.csv", '"a",b\n' * 100, quote="").splits(60)) == 10
    assert len(memory_file("a.csv", "a\\\nb\n" * 100, escape="\\").splits(40)) == 1
    assert len(memory_file("a.csv", "a,b\n" * 100, encoding="latin-1").splits(40)) == 1
    assert len(memory_file("a.csv.gz", b"a,b\n" * 100).splits(40)) == 1


def test_error_in_a_later_split_names_the_line_in_the_file(memory_file):
    file = memory_file("a.csv", b"a,b\n" * 50 + b"\xff\n", quote="")
    with pytest.raises(FormatError, match="line 51"):
        file.split_rows(64)


@pytest.mark.parametrize(
    "options", [{"delimiter": ""}, {"delimiter": "é"}, {"delimiter": '"'}, {"quote": "ab"}, {"encoding": "base64"}]
)
def test_invalid_options_are_rejected(memory_file, options):
    with pytest.raises(ScanOptionError, match="cannot be"):
        memory_file("a.csv", "a\n", **options).discover()


@given(data=st.binary(max_size=200), header=st.booleans(), make_reader=blocks)
def test_any_bytes_give_rows_or_engine_error(memory_file, data, header, make_reader):
    try:
        memory_file("a.csv", data, make_reader, header=header).rows()
    except EngineError as error:
        assert "\n" not in str(error)
