"""Discovery of JSON files whose regular lines are recognized without parsing them."""

import io
import json
import random
from contextlib import closing

import pyarrow as pa
import pytest

from engine.errors import EngineError
from engine.readers.json_objects.format import JsonFormat
from engine.readers.json_objects.json_options import JsonOptions, Layout, TypeConflictPolicy
from engine.readers.json_objects.object_blocks import open_objects
from engine.readers.json_objects.object_parser import ObjectParser
from engine.readers.malformed_policy import MalformedPolicy
from engine.scan.reader import SourceFile
from engine.schema import TupleSchema

BLOCK_BYTES = 4096
REGULAR = {
    "k": 0,
    "id": 7,
    "price": 1.5,
    "name": "x",
    "paid": True,
    "late": None,
    "who": {"age": 1},
    "tags": [{"t": "a"}],
}


def lines_of(*rows):
    """Return the lines of rows. Repeated rows are written once, because a test can have many."""
    lines = {id(row): row for row in rows}
    for key, row in lines.items():
        lines[key] = row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n"
    return b"".join(lines[id(row)] for row in rows)


def source(data):
    return SourceFile("dfs", "a.json", len(data), lambda: io.BytesIO(data))


def outcome(discover):
    """Return the names and types, or the error, in a form that is easy to compare."""
    try:
        return str(discover().to_arrow())
    except EngineError as error:
        return f"{type(error).__name__}: {error}"


def discover(data, options=JsonOptions(), block_bytes=BLOCK_BYTES):  # noqa: B008 - immutable
    return outcome(lambda: JsonFormat(block_bytes=block_bytes).discover(source(data), options))


def discover_by_parsing(data, options=JsonOptions(), block_bytes=BLOCK_BYTES):  # noqa: B008 - immutable
    """Discover a file by parsing each line."""

    def parse():
        with closing(open_objects(source(data), options, block_bytes)) as objects:
            parser = ObjectParser(objects.positions, options)
            for block in iter(objects.next, None):
                for _ in parser.tables(block):
                    pass
            return TupleSchema.of(parser.known)

    return outcome(parse)


@pytest.fixture
def parsed_rows(monkeypatch):
    """Count the rows that discovery parses."""
    counts = []

    def counted(method):
        def count(self, block, *arguments):
            counts.append(block.line_feeds)
            return method(self, block, *arguments)

        return count

    monkeypatch.setattr(ObjectParser, "tables", counted(ObjectParser.tables))
    monkeypatch.setattr(ObjectParser, "attempt", counted(ObjectParser.attempt))
    return counts


@pytest.mark.parametrize(
    "rows",
    [
        [REGULAR] * 400,
        [{"a": number, "b": -number / 7, "c": f'{number} \u00e9 \U0001f600 \\ " /'} for number in range(1000)],
        [dict(list(REGULAR.items())[number % 3 :]) for number in range(400)],
        [b'{ "a"\t: 1 ,  "b":[ 1 , 2 ] }\r\n', b"\n", b" \t\r\n"] * 400,
        ['{"a":"\u00e9"}\n'.encode()] * 1000,
        [b'{"a":null,"b":{"c":[]}}\n', b'{"b":{"c":[1,2]},"a":1}\n'] + [b'{"b":{"c":[3]},"a":2}\n'] * 1000,
    ],
)
def test_regular_lines_are_not_parsed(parsed_rows, rows):
    data = lines_of(*rows)
    found = discover(data)
    assert sum(parsed_rows) < len(rows) / 2
    assert found == discover_by_parsing(data)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"id":9223372036854775807}', "id: int64"),
        ('{"id":9223372036854775808}', "id: decimal128(38, 0)"),
        ('{"id":-99999999999999999999}', "id: decimal128(38, 0)"),
        ('{"id":%s}' % ("9" * 39), "line 201: column 'id'"),
        ('{"id":1.0}', "id: double"),
        ('{"id":1e3}', "id: double"),
        ('{"id":01}', "line 201: this is not JSON"),
        ('{"id":+1}', "line 201: this is not JSON"),
        ('{"id":.5}', "line 201: this is not JSON"),
        ('{"id":"1"}', "line 201"),
        ('{"id":true}', "line 201"),
        ('{"id":{}}', "line 201"),
        ('{"price":9007199254740993}', "line 201: column 'price'"),
        ('{"price":123456789012345678}', "line 201: column 'price'"),
        ('{"price":1e999}', "line 201: column 'price'"),
        ('{"price":1.}', "line 201: this is not JSON"),
        ('{"price":"1.5"}', "line 201"),
        ('{"name":5}', "line 201"),
        ('{"name":"a\tb"}', "line 201: this is not JSON"),
        ('{"name":"a\0b"}', "line 201: this is not JSON"),
        ('{"name":"\\x"}', "line 201: this is not JSON"),
        ('{"name":"\\u12"}', "line 201: this is not JSON"),
        ('{"name":"\\ud800"}', "surrogate"),
        ('{"name":"\\udc00"}', "surrogate"),
        ('{"name":"\\ud83dx"}', "surrogate"),
        ('{"name":"\\udc00\\udc00"}', "surrogate"),
        ('{"\\ud800":1}', "surrogate"),
        ('{"who":{"\\ud800":1}}', "surrogate"),
        ('{"who":' + '{"a":' * 120 + "1" + "}" * 121, "deeper than 100 levels"),
        ('{"who":' + '{"a":' * 900 + "1" + "}" * 901, "deeper than 100 levels"),
        ('{"who":' + '[{"a":' * 400 + "1" + "}]" * 400 + "}", "deeper than 100 levels"),
        ('{"name":"x}', "line 201: this is not JSON"),
        (b'{"name":"\xff"}', "line 201: the bytes are not UTF-8"),
        (b'{"name":"\xed\xa0\x80"}', "line 201: the bytes are not UTF-8"),
        ('{"paid":1}', "line 201"),
        ('{"paid":True}', "line 201: this is not JSON"),
        ('{"late":1}', "late: int64"),
        ('{"late":[null]}', "late: list<"),
        ('{"who":{"age":1.5}}', "age: double"),
        ('{"who":{"Age":1}}', "who.Age"),
        ('{"who":{"name":"x"}}', "who: struct<age: int64, name: string>"),
        ('{"who":[]}', "line 201"),
        ('{"tags":[{"t":1}]}', "line 201"),
        ('{"tags":[{"t":"a"},null]}', "tags: list<item: struct<t: string>>"),
        ('{"tags":[{"t":"a"} {"t":"b"}]}', "line 201: this is not JSON"),
        ('{"tags":[{"t":"a"},]}', "line 201: this is not JSON"),
        ('{"tags":' + "[" * 150 + "]" * 150 + "}", "line 201: values are nested deeper"),
        ('{"ID":1}', "DuplicateColumnError"),
        ('{"id":1,"id":2}', "DuplicateColumnError"),
        ('{"id":1,"\\u0069d":2}', "DuplicateColumnError"),
        ('{"id":1,"ID":2}', "DuplicateColumnError"),
        ('{"new":1}', "new: int64"),
        ('{"id":1,}', "line 201: this is not JSON"),
        ('{"id":1 "price":2}', "line 201: this is not JSON"),
        ('{"id" 1}', "line 201: this is not JSON"),
        ('{"id":1', "line 201: this is not JSON"),
        ('{"id":1}}', "line 201: this is not JSON"),
        ('{"id":1} x', "line 201: this is not JSON"),
        ('{"id":1}\u00a0', "line 201: this is not JSON"),
        ('{"id":1}\f', "line 201: this is not JSON"),
        ("5", "line 201: a row must be an object"),
        ("null", "line 201: a row must be an object"),
        ('\ufeff{"id":1}', "line 201: this is not JSON"),
        ('{"who":\n{"age":1}\n{"age":2}}', "line 201: this is not JSON"),
        ('{"id":1}{"new":2}', "new: int64"),
    ],
)
def test_line_that_adds_or_breaks_something_is_found_in_later_blocks(line, expected):
    line = line if isinstance(line, bytes) else line.encode()
    # Without the member that each line has, a template would reject the line for this reason alone.
    line = line.replace(b'{"', b'{"k":0,"', 1)
    for last in ([line + b"\n"] + [REGULAR] * 50, [line]):
        data = lines_of(*[REGULAR] * 200, *last)
        found = discover(data)
        assert expected in found
        assert found == discover_by_parsing(data)


def test_line_far_behind_the_start_is_found_with_the_usual_blocks(memory_file):
    row = {"id": 1, "text": "x" * 100}
    file = memory_file("a.json", lines_of(*[row] * 60_000, {"id": 1.5, "text": "y"}))
    assert file.discover().to_arrow() == pa.schema([("id", pa.float64()), ("text", pa.string())])
    file = memory_file("a.json", lines_of(*[row] * 60_000, {"id": "x"}))
    with pytest.raises(EngineError, match="line 60001: "):
        file.discover()


def test_long_integer_has_at_most_38_digits_in_later_blocks():
    for digits in (37, 38, 39):
        rows = [*[{"k": 0, "n": 10**20}] * 300, {"k": 0, "n": 10**digits - 1}]
        found = discover(lines_of(*rows))
        assert ("line 301" in found) == (digits == 39)
        assert found == discover_by_parsing(lines_of(*rows))


def test_object_that_spans_lines_is_rejected_around_regular_lines():
    """The lines have about the length of the pieces that are matched at once, so that some pieces are one line."""

    def line(start, end="}"):
        return f'{start},"name":"{"x" * (2090 - len(start) - len(end))}"{end}\n'.encode()

    regular = line('{"k":0,"who":{"age":1}')
    first, last = line('{"k":0', ',"who":'), b'{"age":2}}\n'
    for count in range(40, 60, 2):
        data = lines_of(*[regular] * count, first, regular, regular, last, *[regular] * 3)
        found = discover(data, block_bytes=32 * 1024)
        assert f"line {count + 1}: this is not JSON" in found
        assert found == discover_by_parsing(data, block_bytes=32 * 1024)


def test_object_that_spans_lines_is_rejected_beside_numbers_that_may_be_rounded():
    rows = [{"k": 0, "d": 1.5, "n": 5, "who": {"age": 1}}] * 150
    long = [{"k": 0, "n": 1234567890123456, "d": 2.5}] * 50
    data = lines_of(*rows * 2, *long, *rows, b'{"k":0,"d":1e300,"who":\n{"age":1}}\n', *rows)
    for block_bytes in range(15_000, 25_000, 1000):
        assert discover(data, block_bytes=block_bytes) == discover_by_parsing(data, block_bytes=block_bytes)


def test_number_limits_depend_on_the_rest_of_the_block():
    rows = [{"d": 1.5, "n": 1234567890123456}] * 300
    for line in ('{"d":9007199254740993}', '{"d":1e300}', '{"d":1e15}', '{"d":9007199254740992}'):
        data = lines_of(*rows, line.encode() + b"\n", *rows)
        assert discover(data) == discover_by_parsing(data)


def test_column_that_becomes_text_or_double_is_recognized_again(parsed_rows):
    text = JsonOptions(on_type_conflict=TypeConflictPolicy.TEXT)
    for options, value in ((JsonOptions(), 1.5), (text, "x")):
        data = lines_of(*[{"a": 1}] * 2000, {"a": value}, *[{"a": value}] * 4000)
        found = discover(data, options)
        assert sum(parsed_rows) < 3000
        parsed_rows.clear()
        assert found == discover_by_parsing(data, options)
        parsed_rows.clear()


@pytest.mark.parametrize("policy", TypeConflictPolicy)
@pytest.mark.parametrize("malformed", MalformedPolicy)
@pytest.mark.parametrize("all_text", [False, True])
def test_policies_apply_to_later_blocks(policy, malformed, all_text):
    options = JsonOptions(on_type_conflict=policy, malformed=malformed, all_text=all_text, layout=Layout.LINES)
    for line in (b'{"price":1}\n', b'{"id":1.5}\n', b'{"name":1}\n', b'{"id":\n', b"[]\n", b'{"ID":1}\n'):
        data = lines_of(*[REGULAR] * 200, line, *[REGULAR] * 50)
        assert discover(data, options) == discover_by_parsing(data, options)


def test_max_columns_counts_names_of_later_blocks():
    options = JsonOptions(max_columns=12)
    rows = [*[REGULAR] * 200, *({f"n{number}": 1} for number in range(20)), *[REGULAR] * 50]
    found = discover(lines_of(*rows), options)
    assert "more than 12 column names" in found
    assert found == discover_by_parsing(lines_of(*rows), options)


def test_objects_of_arrays_and_sequences_are_recognized():
    rows = [*[REGULAR] * 200, {"id": "x"}, *[REGULAR] * 50]
    for data in (json.dumps(rows).encode(), "\n".join(json.dumps(row, indent=1) for row in rows).encode()):
        found = discover(data)
        assert "object 201" in found
        assert found == discover_by_parsing(data)


def test_names_of_any_characters_are_matched_exactly():
    for name in ("a.b", 'a"b', "a\\b", "\u00e9", "a b", "^$()[]{}|*+?", "\U0001f600", "\x7f", "a\nb", "", "\\Q", "a-b"):
        rows = [*[{name: 1}] * 1000, {name[:-1] + "x": 1.5}, {name: None}, *[{name: 1}] * 100]
        for ascii_only in (False, True):
            data = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows).encode()
            assert discover(data) == discover_by_parsing(data)


def test_lines_without_repeating_members_are_parsed(parsed_rows):
    rows = [{f"n{number % 150}": number, f"m{number % 140}": "x"} for number in range(3000)]
    data = lines_of(*rows)
    assert discover(data) == discover_by_parsing(data)


KINDS = {
    "integer": ["0", "-1", "12", "123456789012345678", "-0", "null"],
    "double": ["0.5", "-1.25e-7", "3", "123456789012345", "1E-5", "-0.0", "null"],
    "text": ['""', '"x"', '"\\n\\u00e9"', '"\\ud83d\\ude00"', '"\u00e9\x7f"', '"2020-01-01"', '"]}"', "null"],
    "boolean": ["true", "false", "null"],
    "null": ["null"],
    "object": ['{"x":1}', '{"x":2,"y":"z"}', '{"y":"z"}', '{"y":null}', "null", '{ "x" : 3 }'],
    "array": ["[]", "[1]", "[1,2, 3]", "null"],
    "objects": ['[{"x":1}]', '[{"x":1},{"x":2,"y":[]}]', "[]", '[{"y":[true]}]'],
}
ODD = [
    *("01", "1.", "-", "+1", "1e5", "1e400", "1e-400", "1E+3", "9223372036854775808", "9007199254740993", "0x1", "NaN"),
    *(
        "Infinity",
        "-Infinity",
        "1e15",
        "1e16",
        "1234567890123456",
        "1.5",
        "9" * 38,
        "9" * 39,
        "truex",
        "True",
        "''",
        "",
    ),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"a\tb"', '"a\0b"', '"\\x"', '"\\u12g4"', '"x', '"\\"', '"\\\\"'),
    *("[null]", "[null,null]", "[1,null]", "[[1]]", "[1.5]", '["x"]', "[1,]", "[,1]", "[1 2]", "[", "]", "[1", "{}"),
    *('{"X":1}', '{"x":1,"x":2}', '{"x":1.5}', '{"z":1}', '{"x":{}}', '{"x":1', '{"x":1}}', '{"x" 1}', "{", "}", "\n"),
    *(
        "1}{",
        "\r",
        "1\r",
        "\n{}",
        "\u00a01",
        "[]\n",
        "[{}]",
        '[{"x":null}]',
        "1,",
        '"2020-01-01T00:00:00Z"',
        '"\u20ac"',
    ),
]


def random_line(chance, columns, oddity):
    names = [name for name in columns if chance.random() > 0.1]
    if chance.random() < oddity:
        chance.shuffle(names)
    members = []
    for name in names:
        value = chance.choice(ODD if chance.random() < oddity else KINDS[columns[name]])
        change = chance.random() / max(oddity, 1e-9)
        written = name.upper() if change < 0.1 else f"\\u{ord(name):04x}" if change < 0.3 else name
        members += [f'"{written}"{chance.choice(("", " "))}:{value}'] * (1 + (0.3 < change < 0.4))
    line = "{" + chance.choice((",", ", ")).join(members) + "}"
    if chance.random() < oddity:
        at = chance.randrange(len(line) + 1)
        line = line[:at] + chance.choice(["", " ", ",", "}", "{", "\n", "\\", '"', "\r", "\t", "{}"]) + line[at + 1 :]
    return line + chance.choice(("\n", "\n", "\n", "\r\n", " \n", "\n\n")) * (chance.random() > oddity / 10)


def row_with_odd_value(chance, columns, odd):
    values = {name: chance.choice(ODD if name == odd else KINDS[kind]) for name, kind in columns.items()}
    return "{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + "}\n"


def random_document(chance):
    columns = {name: chance.choice(list(KINDS)) for name in "abcdef"[: chance.randint(1, 6)]}
    start = "".join(random_line(chance, columns, 0) for _ in range(chance.randint(10, 120)))
    oddity = chance.choice((0, 0.002, 0.01, 0.05))
    rest = [random_line(chance, columns, oddity) for _ in range(chance.randint(0, 300))]
    if not oddity:
        at = chance.randrange(len(rest) + 1)
        name = chance.choice(list(columns))
        rest[at:at] = [row_with_odd_value(chance, columns, name)]
    data = (start + "".join(rest)).encode()
    if chance.random() < 0.05:
        at = chance.randrange(len(data))
        data = data[:at] + chance.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf")) + data[at + 1 :]
    return data


RANDOM_DOCUMENTS = 80


def compare_random_document(seed):
    chance = random.Random(seed)  # noqa: S311 - not for security
    data = random_document(chance)
    options = JsonOptions(
        on_type_conflict=chance.choice([*TypeConflictPolicy, TypeConflictPolicy.WIDEN]),
        malformed=chance.choice(list(MalformedPolicy)),
        all_text=chance.random() < 0.05,
        max_columns=chance.choice((7, 10_000)),
        layout=Layout.LINES,
    )
    block_bytes = chance.choice((64, 512, 4096, 20_000))
    expected = discover_by_parsing(data, options, block_bytes)
    assert discover(data, options, block_bytes) == expected, (seed, options)
    return expected


def test_random_documents_have_the_same_schema_as_by_parsing():
    found = [compare_random_document(seed) for seed in range(RANDOM_DOCUMENTS)]
    errors = sum("Error" in one for one in found)
    assert RANDOM_DOCUMENTS / 8 < errors < RANDOM_DOCUMENTS * 7 / 8
