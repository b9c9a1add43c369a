"""Columns of declared decimals: a number is exact, or refused. Arrow itself returns other numbers for some texts."""

from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import ValueConversionError
from engine.result_set.conversion.decimals import cast_decimals

EXACT = Context(prec=1000)
digits = st.text("0123456789", min_size=1, max_size=80)
integers = st.just("0") | st.builds("{}{}".format, st.sampled_from("123456789"), digits)
fractions = st.just("") | st.builds(".{}".format, digits)
exponents = st.just("") | st.builds("{}{}".format, st.sampled_from("eE"), st.integers(-20, 20))
numbers = st.builds("{}{}{}{}".format, st.sampled_from(["", "-"]), integers, fractions, exponents)
types = st.integers(1, 38).flatmap(
    lambda precision: st.builds(pa.decimal128, st.just(precision), st.integers(0, precision))
)


def fits(number, type_):
    is_exact = number.quantize(Decimal(1).scaleb(-type_.scale), context=EXACT) == number
    return is_exact and number.adjusted() < type_.precision - type_.scale


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("a.json", '{{"a": {}}}\n'),
        ("a.json", '{{"a": "{}"}}\n'),
        ("a.csv", "a\n{}\n"),
        ("a.csv", 'a,b\n"{}",x\n'),
    ],
)
@given(number=numbers, type_=types)
@example("95962291402021331334", pa.decimal128(38, 22))
@example("1.5e20", pa.decimal128(38, 37))
@example("3.7188221081518712081659993902739149789177", pa.decimal128(4, 1))
@example("384385.945391292992301932576731784e-12", pa.decimal128(5, 0))
@example("1234", pa.decimal128(5, 2))
@example("123456789012345678901234567890.12345678", pa.decimal128(38, 8))
def test_number_is_exact_or_refused(memory_file, path, content, number, type_):
    options = {"header": True} if path == "a.csv" else {}
    file = memory_file(path, content.format(number), **options)
    value = Decimal(number)
    if value and fits(value, type_):
        assert [row["a"] for row in file.rows(provided={"a": type_})] == [value]
    elif value:
        with pytest.raises(ValueConversionError, match="column 'a'"):
            file.rows(provided={"a": type_})


@pytest.mark.parametrize(
    "number", ["1e-999999999", "1e999999999", "1e-40", '"1e-999999999"', '"1e+-999999999"', '"1_0"']
)
@pytest.mark.parametrize("before", [0, 2000])
def test_json_with_a_huge_exponent_is_refused(memory_file, number, before):
    file = memory_file("a.json", '{"a": 1.5}\n' * before + f'{{"a": {number}}}\n')
    with pytest.raises(ValueConversionError, match=f"line {before + 1}: column 'a'"):
        file.rows(provided={"a": pa.decimal128(38, 2)})


@pytest.mark.parametrize(
    "text", ["95962291402021331334", "+0095962291402021331334", "1.5e20", "95\\u003962291402021331334"]
)
def test_json_text_of_too_many_digits_among_numbers_is_refused(memory_file, text):
    file = memory_file("a.json", '{"a": 1.5}\n' * 2000 + f'{{"a": "{text}"}}\n')
    with pytest.raises(ValueConversionError, match="line 2001: column 'a'"):
        file.rows(provided={"a": pa.decimal128(38, 22)})


@given(
    st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=20),
    types,
    st.integers(0, 38),
    st.integers(0, 3),
)
def test_decimals_of_another_scale_are_exact_or_refused(numbers, to, scale, start):
    values = [None if number is None else Decimal(number).scaleb(-scale, EXACT) for number in numbers]
    for offered in (pa.array(values, pa.decimal128(38, scale)), pa.array(values, pa.decimal256(76, scale))):
        array = offered.slice(start)
        wanted = [value for value in values[start:] if value]
        try:
            assert cast_decimals(array, to).to_pylist() == values[start:]
        except ValueError:
            assert not all(fits(value, to) for value in wanted)


@pytest.mark.parametrize("policy", ["widen", "error", "text"])
@pytest.mark.parametrize("first", ["1.5", "2", "null", "12345678901234567890", '"3"'])
@pytest.mark.parametrize("second", ["1.25", "-3", "98765432109876543210.5", "98765432109876543210", '"-4.5"'])
def test_json_may_mix_numbers_and_text_in_a_declared_decimal(memory_file, policy, first, second):
    lines = [f'{{"a": {one}, "m": {{"x": {one}, "l": [{one}]}}, "d": {{"k": {one}}}}}\n' for one in (first, second)]
    type_ = pa.decimal128(38, 2)
    types = {"a": type_, "m": pa.struct({"x": type_, "l": pa.list_(type_)}), "d": pa.map_(pa.string(), type_)}
    rows = memory_file("a.json", "".join(lines), on_type_conflict=policy).rows(provided=types)
    numbers = (None if text == "null" else Decimal(text.strip('"')) for text in (first, second))
    assert rows == [{"a": one, "m": {"x": one, "l": [one]}, "d": [("k", one)]} for one in numbers]
