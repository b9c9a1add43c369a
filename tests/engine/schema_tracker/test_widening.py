from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.arrow_types import inner_fields, with_inner_fields
from engine.schema import fold_case
from engine.schema_tracker.widening import can_be_declared, can_become, common_field, common_type

INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
DOUBLE, TEXT, NULL = pa.float64(), pa.string(), pa.null()
DATE, LOCAL, ZONED, TOKYO = pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo")


def struct(**members):
    return pa.struct(list(members.items()))


TABLE = [
    *[(NULL, other, other) for other in (INT8, DOUBLE, TEXT, DATE, ZONED, struct(a=INT8), pa.list_(INT8), NULL)],
    (INT8, INT16, INT16),
    (INT8, INT64, INT64),
    (INT32, INT64, INT64),
    (pa.uint8(), pa.uint32(), pa.uint32()),
    (pa.uint8(), INT8, INT16),
    (pa.uint32(), INT8, INT64),
    (pa.uint64(), INT8, DOUBLE),
    (INT8, pa.float32(), DOUBLE),
    (INT64, DOUBLE, DOUBLE),
    (pa.float32(), DOUBLE, DOUBLE),
    (pa.float16(), pa.float32(), pa.float32()),
    (pa.decimal128(5, 2), pa.decimal128(7, 1), pa.decimal128(8, 2)),
    (pa.decimal128(5, 2), INT8, pa.decimal128(5, 2)),
    (pa.decimal128(5, 2), INT32, pa.decimal128(12, 2)),
    (pa.decimal128(5, 2), pa.uint8(), pa.decimal128(7, 2)),
    (DATE, LOCAL, LOCAL),
    (DATE, pa.date64(), pa.date64()),
    (pa.date64(), pa.timestamp("s"), pa.timestamp("s")),
    (pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("us")),
    (pa.timestamp("s", "Europe/Rome"), ZONED, ZONED),
    (TOKYO, ZONED, ZONED),
    (pa.time32("s"), pa.time32("ms"), pa.time32("ms")),
    (pa.time32("s"), pa.time64("us"), pa.time64("us")),
    (pa.duration("s"), pa.duration("ns"), pa.duration("ns")),
    (TEXT, pa.large_string(), pa.large_string()),
    (pa.binary(), pa.large_binary(), pa.large_binary()),
    (pa.binary(4), pa.binary(5), pa.binary()),
    (struct(a=INT8), struct(a=INT64), struct(a=INT64)),
    (struct(a=INT8), struct(a=NULL), struct(a=INT8)),
    (pa.list_(INT8), pa.list_(DOUBLE), pa.list_(DOUBLE)),
    (pa.list_(NULL), pa.list_(struct(a=INT8)), pa.list_(struct(a=INT8))),
    (pa.list_(INT8), pa.large_list(INT16), pa.large_list(INT16)),
    (pa.list_(INT8, 2), pa.list_(INT8, 3), pa.list_(INT8)),
    (pa.map_(TEXT, INT8), pa.map_(TEXT, INT64), pa.map_(TEXT, INT64)),
]
WITHOUT = [
    *[(TEXT, other) for other in (INT64, DOUBLE, pa.bool_(), DATE, LOCAL, pa.binary(), struct(a=TEXT), pa.list_(TEXT))],
    *[(pa.bool_(), other) for other in (INT8, DOUBLE, DATE)],
    (INT64, DATE),
    (INT64, LOCAL),
    (DOUBLE, pa.decimal128(5, 2)),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.decimal128(38, 0), pa.decimal128(5, 2)),
    (LOCAL, ZONED),
    (DATE, ZONED),
    (pa.time64("us"), LOCAL),
    (pa.duration("s"), INT64),
    (INT64, pa.list_(INT64)),
    (INT64, struct(a=INT64)),
    (struct(a=INT64), pa.map_(TEXT, INT64)),
    (struct(a=INT64), struct(a=TEXT)),
    (pa.list_(INT64), pa.list_(TEXT)),
    (pa.map_(TEXT, INT64), pa.map_(INT64, INT64)),
]
SCALARS = sorted({type_ for row in [*TABLE, *WITHOUT] for type_ in row if not pa.types.is_nested(type_)}, key=str)


def a_field(name, type_, nullable):
    return pa.field(name, type_, nullable or type_ == NULL)


def types(depth=2):
    leaves = st.sampled_from(SCALARS)
    if depth == 0:
        return leaves
    inner = types(depth - 1)
    fields = st.builds(a_field, st.sampled_from("abC"), inner, st.booleans())
    structs = st.lists(fields, max_size=3, unique_by=lambda field: field.name).map(pa.struct)
    lists = st.builds(lambda kind, field: kind(field), st.sampled_from([pa.list_, pa.large_list]), fields)
    dicts = st.builds(pa.map_, st.sampled_from([TEXT, INT32, INT64]), inner)
    return st.one_of(leaves, structs, lists, dicts)


ALIKE = st.one_of(types(), types(0), st.sampled_from([type_ for row in TABLE for type_ in row]))


def in_any_order(type_):
    """Return a type in a form that ignores the order of members, which the first of two types decides."""
    if type_ is None or not pa.types.is_nested(type_):
        return type_
    if pa.types.is_struct(type_):
        members = [(fold_case(one.name), in_any_order(one.type), one.nullable) for one in type_]
        return "struct", tuple(sorted(members, key=lambda member: member[0]))
    if pa.types.is_map(type_):
        return "dict", in_any_order(type_.key_type), in_any_order(type_.item_type), type_.item_field.nullable
    kind = type_.list_size if pa.types.is_fixed_size_list(type_) else pa.types.is_large_list(type_)
    return "list", kind, in_any_order(type_.value_type), type_.value_field.nullable


def in_utc(type_):
    """Return a type in which the time zone of all instants is UTC."""
    if type_ is not None and pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if type_ is None or not pa.types.is_nested(type_):
        return type_
    return with_inner_fields(type_, [field.with_type(in_utc(field.type)) for field in inner_fields(type_)])


def common_of(one, other):
    """Return the common type. None, for no common type, has none with any other."""
    return None if one is None or other is None else common_type(one, other)


@pytest.mark.parametrize(("one", "other", "common"), TABLE)
def test_types_in_the_table_have_a_common_type(one, other, common):
    assert common_type(one, other) == common
    assert common_type(other, one) == common


@pytest.mark.parametrize(("one", "other"), WITHOUT)
def test_types_outside_the_table_have_no_common_type(one, other):
    assert common_type(one, other) is None
    assert common_type(other, one) is None


def test_common_type_of_scalars_is_symmetric():
    for one, other in combinations(SCALARS, 2):
        assert common_type(one, other) == common_type(other, one), (one, other)


@given(ALIKE)
def test_common_type_is_idempotent(type_):
    assert common_type(type_, type_) == type_


@given(ALIKE, ALIKE)
def test_common_type_is_symmetric(one, other):
    assert in_any_order(common_type(one, other)) == in_any_order(common_type(other, one))


@settings(max_examples=200)
@given(ALIKE, ALIKE, ALIKE)
def test_common_type_is_associative(one, two, three):
    left = common_of(common_of(one, two), three)
    right = common_of(one, common_of(two, three))
    assert in_any_order(left) == in_any_order(right)


def test_common_type_of_scalars_is_associative():
    for one in SCALARS:
        for two in SCALARS:
            for three in SCALARS:
                left, right = common_of(common_of(one, two), three), common_of(one, common_of(two, three))
                assert left == right, (one, two, three)


@given(ALIKE, ALIKE)
def test_both_types_can_become_the_common_one(one, other):
    common = common_type(one, other)
    if common is not None:
        assert can_become(one, common)
        assert can_become(other, common)


@given(ALIKE, ALIKE)
def test_type_can_become_another_if_that_is_the_common_type(offered, promised):
    if "null" not in str(promised):
        common, wanted = (in_any_order(in_utc(one)) for one in (common_type(offered, promised), promised))
        assert can_become(offered, promised) == (common == wanted)


@pytest.mark.parametrize("wrap", [lambda one: one, pa.list_, lambda one: struct(a=one)])
def test_time_zone_can_become_any_other(wrap):
    other = pa.timestamp("us", "America/New_York")
    assert can_become(wrap(ZONED), wrap(other))
    assert can_become(wrap(pa.timestamp("ms", "UTC")), wrap(other))
    assert not can_become(wrap(pa.timestamp("ns", "UTC")), wrap(other))
    assert not can_become(wrap(LOCAL), wrap(other))
    assert not can_become(wrap(ZONED), wrap(LOCAL))


@given(ALIKE, ALIKE)
def test_type_that_widens_can_be_declared(offered, declared):
    if can_become(offered, declared):
        assert can_be_declared(offered, declared)


@given(ALIKE)
def test_late_type_can_become_any_and_any_can_become_late(type_):
    assert can_become(NULL, type_)
    assert can_become(type_, NULL)
    assert can_become(pa.list_(type_), pa.list_(NULL))


@pytest.mark.parametrize(
    ("offered", "promised"),
    [(INT64, INT32), (DOUBLE, INT64), (LOCAL, DATE), (TEXT, INT64), (INT64, TEXT), (pa.float64(), pa.float32())],
)
def test_narrower_or_other_type_is_refused(offered, promised):
    assert not can_become(offered, promised)


@pytest.mark.parametrize("zones", [("UTC", "Asia/Tokyo"), ("Asia/Tokyo", "UTC"), ("UTC", "Etc/UTC")])
def test_instant_of_any_zone_can_become_an_instant_of_any_zone(zones):
    one, other = (pa.timestamp("us", zone) for zone in zones)
    for fits in (can_become, can_be_declared):
        assert fits(one, other)
        assert fits(pa.list_(struct(a=one)), pa.list_(struct(a=other)))
        assert fits(pa.timestamp("s", zones[0]), other)
        assert not fits(pa.timestamp("ns", zones[0]), other)
        assert not fits(LOCAL, other)
        assert not fits(one, LOCAL)


def test_common_map_has_members_of_both():
    one = pa.struct([pa.field("a", INT8, False), pa.field("b", TEXT, False)])
    other = pa.struct([pa.field("c", TEXT, False), pa.field("A", INT64, False)])
    expected = [pa.field("a", INT64, False), pa.field("b", TEXT), pa.field("c", TEXT)]
    assert list(common_type(one, other)) == expected


def test_common_field_of_required_and_nullable_is_nullable():
    field = common_field(pa.field("A", INT8, False), pa.field("a", INT16, True))
    assert field == pa.field("A", INT16)
    assert not common_field(pa.field("a", INT8, False), pa.field("a", INT16, False)).nullable


def test_nullable_member_does_not_become_required():
    required, nullable = (pa.struct([pa.field("a", INT8, mode)]) for mode in (False, True))
    assert can_become(required, nullable)
    assert not can_become(nullable, required)
    assert not can_become(pa.struct([]), required)


def test_map_with_more_members_than_promised_does_not_fit():
    assert can_become(struct(a=INT8), struct(a=INT8, b=TEXT))
    assert not can_become(struct(a=INT8, b=TEXT), struct(a=INT8))


@pytest.mark.parametrize("type_", [INT64, DOUBLE, DATE, ZONED, pa.bool_(), pa.decimal128(5, 2)])
def test_declared_scalars_convert_from_and_to_text(type_):
    assert can_be_declared(type_, TEXT)
    assert can_be_declared(TEXT, type_)
    assert can_be_declared(pa.list_(type_), pa.list_(TEXT))
    assert can_be_declared(struct(a=TEXT), struct(a=type_))


@pytest.mark.parametrize("type_", [struct(a=TEXT), pa.list_(TEXT), pa.map_(TEXT, TEXT)])
def test_declared_text_takes_no_nested_values(type_):
    assert not can_be_declared(type_, TEXT)
    assert not can_be_declared(TEXT, type_)


def test_declared_number_is_not_narrowed():
    assert not can_be_declared(INT64, INT32)
