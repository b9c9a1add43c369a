"""Numbers in comments are the guarantees of ``engine.readers.text``."""

import csv
import io

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.errors import TextFormatError, UnreadableFileError
from engine.readers import read_batches
from engine.readers.text import MAX_BATCH_ROWS, MAX_VALUES_BYTES, TextReader

MIB = 1024 * 1024


def batches_of(content, *, delimiter=",", **more):
    content = content.encode() if isinstance(content, str) else content
    reader = TextReader(io.BytesIO(content), delimiter=delimiter, workspace="dfs", path="a.csv", **more)
    return list(reader.batches())


def rows_of(content, **more):
    return [row for batch in batches_of(content, **more) for row in batch.column("columns").to_pylist()]


# 1: the rows


values = st.text(st.sampled_from("ab,|\t\"'\r\n \0é€😀\u2028\x85") | st.characters(codec="utf-8"), max_size=6)
tables = st.lists(st.lists(values, min_size=1, max_size=4), max_size=20)


@given(
    table=tables,
    delimiter=st.sampled_from(",|\t"),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    block_bytes=st.integers(1, 60),
)
def test_a_table_that_python_wrote_is_read_as_it_was(table, delimiter, line_end, quoting, block_bytes):
    # Python's writer quotes a carriage return only where line ends have one too.
    has_return = any("\r" in value for row in table for value in row)
    assume(quoting == csv.QUOTE_ALL or line_end == "\r\n" or not has_return)
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=line_end, quoting=quoting).writerows(table)
    assert rows_of(text.getvalue(), delimiter=delimiter, block_bytes=block_bytes) == table


@given(
    text=st.text(st.sampled_from('aé,"\r\n'), max_size=40) | st.text(st.sampled_from("aé,\n"), max_size=40),
    block_bytes=st.integers(1, 20),
)
@settings(max_examples=500)
def test_any_text_gives_the_rows_of_pythons_csv_or_an_error_where_that_has_one(text, block_bytes):
    try:
        expected = [row for row in csv.reader(io.StringIO(text, newline="\n"), strict=True) if row]
    except csv.Error:
        with pytest.raises(TextFormatError):
            rows_of(text, block_bytes=block_bytes)
    else:
        assert rows_of(text, block_bytes=block_bytes) == expected


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\nc,d,e\nf\n", [["a", "b"], ["c", "d", "e"], ["f"]]),
        ('"a","b"\n"c","d","e"\n"f"\n', [["a", "b"], ["c", "d", "e"], ["f"]]),
        ("a,,\n,\n", [["a", "", ""], ["", ""]]),
        ('"",""\n""\n', [["", ""], [""]]),
        ("null,NULL,NA,\n", [["null", "NULL", "NA", ""]]),
        ("\n\na\n\r\n\nb\n\n", [["a"], ["b"]]),
        ('\n\n"a"\n\r\n\nb\n\n', [["a"], ["b"]]),
        (" a , b \n", [[" a ", " b "]]),
        ('a,"b\r\nc\n",d\n', [["a", "b\r\nc\n", "d"]]),
        ('"say ""hi"""\n', [['say "hi"']]),
        ('5" pipe,6"\n', [['5" pipe', '6"']]),
        ("a,b", [["a", "b"]]),
        ('a,"b"', [["a", "b"]]),
        ("a\r\nb\r\n", [["a"], ["b"]]),
        ("a\u2028b,c\x85d,e\x0bf\n", [["a\u2028b", "c\x85d", "e\x0bf"]]),
        ("\ufeffa,b\n", [["a", "b"]]),
        ('\ufeff"a",b\n', [["a", "b"]]),
        ("a\n\ufeffb\n", [["a"], ["\ufeffb"]]),
        ("", []),
        ("\ufeff", []),
        ("\n\r\n\n", []),
    ],
)
def test_rows_are_what_rfc_4180_says(text, rows):
    assert rows_of(text) == rows


def test_blocks_with_and_without_quotes_join_without_a_row_lost_or_doubled():
    rows = [[str(i), f"{i},quoted" if i % 977 == 0 else "plain"] for i in range(20_000)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    assert rows_of(text.getvalue(), block_bytes=4096) == rows


def test_a_quoted_field_longer_than_several_blocks_is_one_value():
    value = "line\n" * 10_000
    assert rows_of(f'a\n"{value}",b\nc\n', block_bytes=1000) == [["a"], [value, "b"], ["c"]]


# 2: limits of a batch


@pytest.mark.parametrize("line", ["a,b\n", '"a",b\n'])
def test_a_batch_has_the_schema_of_the_scan_and_at_most_65_536_rows(line):
    batches = batches_of(line * 200_000)
    assert sum(batch.num_rows for batch in batches) == 200_000
    assert max(batch.num_rows for batch in batches) <= MAX_BATCH_ROWS == 65_536
    assert {str(batch.schema) for batch in batches} == {str(pa.schema({"columns": pa.list_(pa.string())}))}


@pytest.mark.parametrize("row", ["{},b\n", '"{}",b\n'])
def test_a_batch_has_at_most_16_mb_of_values(row):
    lengths = [3 * MIB, 15 * MIB, 10, 15 * MIB, 1 * MIB]
    batches = batches_of("".join(row.format("x" * length) for length in lengths))
    values = [batch.column("columns").flatten() for batch in batches]
    assert [n for v in values for n in pc.binary_length(v).to_pylist() if n != 1] == lengths
    assert max(pc.sum(pc.binary_length(v)).as_py() for v in values) <= MAX_VALUES_BYTES == 16 * MIB


@pytest.mark.parametrize(
    "content",
    [
        b"x" * (MAX_VALUES_BYTES - 1) + b"\n",
        b'"' + b"x" * (MAX_VALUES_BYTES - 3) + b'"\n',
        b'"' + b"xxxxxxx\n" * (MAX_VALUES_BYTES // 8 - 1) + b'45678"\n',
    ],
    ids=["plain", "quoted", "quoted lines"],
)
def test_a_row_of_just_16_mb_is_read_and_one_byte_more_is_an_error(content):
    assert len(content) <= MAX_VALUES_BYTES
    padding = b"y" * (MAX_VALUES_BYTES - len(content))
    assert len(rows_of(b"a\n" + padding + content + b"b\n")) == 3
    with pytest.raises(TextFormatError, match="longer than 16,777,216 bytes") as raised:
        rows_of(b"a\n" + content.replace(b"x", b"xy" + padding, 1) + b"b\n")
    assert raised.value.line == 2


# 3: errors


def error_of(content, **more):
    with pytest.raises(TextFormatError) as raised:
        rows_of(content, **more)
    return raised.value


@pytest.mark.parametrize("block_bytes", [1, 7, 4 * MIB])
@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"a\nb\xff\nc\n", 2, "the bytes are not UTF-8; convert the file to UTF-8"),
        (b'"a\nb"\n\n"c",\xe9\n', 4, "the bytes are not UTF-8"),
        ("a,b\n".encode("utf-16"), 1, "the bytes are not UTF-8"),
        (b'a\n"b",c\n\n"d,e\nf\n', 4, "a quote opens in this row and is never closed; close it"),
        (b'a\nb,"', 2, "never closed"),
        (b'a\n"b" ,c\n', 2, "goes on after its closing quote"),
        (b'a\n"b\nc"d\n', 2, "goes on after its closing quote"),
        (b"a\nb\rc\n", 2, "a carriage return stands outside quotes"),
        (b"a\rb\rc", 1, "a carriage return stands outside quotes"),
    ],
)
def test_what_is_not_the_format_is_an_error_with_its_line(content, line, problem, block_bytes):
    error = error_of(content, block_bytes=block_bytes)
    assert error.line == line
    assert f"'a.csv' in workspace 'dfs', line {line}: " in str(error)
    assert problem in str(error)
    assert "\n" not in str(error)


def test_the_line_of_an_error_counts_what_was_read_in_both_ways():
    plain, quoted = b"a,b\r\n" * 5000, b'"a\n",b\n' * 3000
    assert error_of(plain + quoted + plain + b'"' + plain, block_bytes=1000).line == 16_001


class FileThatFailsInTheMiddle(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(5, "Input/output error", "/machine/path/a.csv")
        return super().read(size)


def test_a_storage_that_fails_in_the_middle_is_an_error_that_names_the_file():
    batches = read_batches(FileThatFailsInTheMiddle(b"a,b\n" * MIB * 2), workspace="dfs", path="a.csv")
    assert next(batches).num_rows
    with pytest.raises(UnreadableFileError) as raised:
        list(batches)
    assert "'a.csv' in workspace 'dfs' cannot be read: Input/output error" in str(raised.value)
    assert "/machine/path" not in str(raised.value)


# 4: memory


@pytest.mark.parametrize("line", [b"a,b,c\n", b'"a",b,c\n'])
def test_the_file_is_read_as_batches_are_asked_for(line):
    file = io.BytesIO(line * 4 * MIB)
    reader = TextReader(file, delimiter=",", workspace="dfs", path="a.csv", block_bytes=64 * 1024)
    next(reader.batches())
    assert file.tell() < 65 * 1024


# The choice by suffix


@pytest.mark.parametrize(
    ("path", "content"),
    [("a.csv", b"1,x|y\n"), ("a.tsv", b"1\tx|y\n"), ("a.psv", b"1|x,y\n"), ("A.TBL", b"1|x,y\n")],
)
def test_the_suffix_chooses_the_delimiter(path, content):
    (batch,) = read_batches(io.BytesIO(content), workspace="dfs", path=path)
    assert [len(row) for row in batch.column("columns").to_pylist()] == [2]
