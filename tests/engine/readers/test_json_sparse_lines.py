"""JSON arrays whose objects have different names."""

import json

import pytest

from engine.readers.byte_arrays import as_byte_array
from engine.readers.json_objects.sparse_lines import count_names, is_sparse
from engine.readers.reader_errors import FormatError


def different(objects: int) -> str:
    """Return a line with an array of objects, each of which has a name of its own."""
    return json.dumps({"x": [{f"a{number}": number} for number in range(objects)]})


def test_array_of_very_different_objects_is_refused(memory_file):
    text = "\n".join(['{"x": []}', different(9000), '{"x": []}'])
    with pytest.raises(FormatError, match=r"line 2: the objects in arrays have too many different names \(9,001"):
        memory_file("a.json", text).rows()
    with pytest.raises(FormatError, match="too many different names"):
        memory_file("a.json", text, all_text=True).rows()


def test_small_objects_after_one_with_many_names_are_refused(memory_file):
    wide = json.dumps({"x": [{f"a{number}": number for number in range(9000)}]})
    narrow = json.dumps({"x": [{f"a{number % 9000}": number} for number in range(18_000)]})
    with pytest.raises(FormatError, match="line 2: the objects in arrays have too many different names"):
        memory_file("a.json", f"{wide}\n{narrow}\n").rows()


def test_large_arrays_of_similar_objects_are_read(memory_file):
    objects = [{f"a{name}": number for name in range(20)} for number in range(30_000)]
    (row,) = memory_file("a.json", json.dumps({"x": objects}) + "\n").rows()
    assert len(row["x"]) == 30_000


def test_names_are_counted_as_json_reads_them():
    line = as_byte_array(rb'{"a": {"b\"c": 1, "a" : ":"}, "d":"e: \"f\": "}')
    assert count_names(line) == 3
    assert not is_sparse(line, 10_000)
    assert count_names(as_byte_array(rb'{"a": 1, "b": "c\": d')) == 2
    assert count_names(as_byte_array(b'{"a": 1, "b\\')) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("end", ['"}', ""])
def test_names_in_a_text_with_many_quotes_are_counted_in_linear_time(end):
    """In quadratic time, this would take hours."""
    line = as_byte_array(b'{"id": 1, "payload": "' + rb"{\"a\": \"b\"}" * 200_000 + end.encode())
    assert count_names(line) == 2
