"""Missing columns, in every mode and with every source of a type."""

import pyarrow as pa
import pytest

from engine.limits import BatchLimits
from engine.scan.missing_columns import resolve_missing_types
from engine.schema import LATE, TupleSchema

INT, TEXT = pa.int32(), pa.string()
X = pa.field("x", INT)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(pa.field("z", INT), None, id="nullable"),
        pytest.param(pa.field("z", INT, nullable=False), 0, id="required_number"),
        pytest.param(pa.field("z", TEXT, nullable=False), "", id="required_text"),
        pytest.param(
            pa.field("z", INT, nullable=False, metadata={"lodge.default": "7"}), 7, id="required_with_default"
        ),
        pytest.param(pa.field("z", INT, metadata={"lodge.default": "7"}), None, id="nullable_with_default"),
        pytest.param(pa.field("z", pa.list_(INT), nullable=False), [], id="repeated"),
        pytest.param(pa.field("z", pa.list_(INT)), None, id="nullable_array"),
        pytest.param(pa.field("z", pa.struct([X])), None, id="nullable_map"),
        pytest.param(pa.field("z", pa.struct([X]), nullable=False), {"x": None}, id="required_map"),
        pytest.param(pa.field("z", pa.map_(TEXT, INT), nullable=False), [], id="required_dict"),
    ],
)
@pytest.mark.parametrize("form", ["defined", "provided"])
def test_missing_column_is_filled_by_mode(scans, field, value, form):
    schema = TupleSchema([pa.field("a", pa.int64()), field])
    reader = scans.reader(scans.batch(a=[1, 2]), scans.batch(a=[3]))
    batches = list(scans.of(reader, columns=["a", "z"], limits=BatchLimits(rows=1), **{form: schema}).batches())
    assert [batch.schema.field("z") for batch in batches] == [field] * 3
    assert [batch.to_pylist() for batch in batches] == [[{"a": number, "z": value}] for number in (1, 2, 3)]


def test_unknown_column_is_null_of_configured_type(scans):
    for type_ in (TEXT, INT, pa.list_(INT)):
        (batch,) = scans.of(scans.reader(scans.batch(a=[1])), columns=["z"], missing_type=type_).batches()
        assert batch.schema == pa.schema([("z", type_)])
        assert batch.column(0).to_pylist() == [None]


def test_type_of_earlier_file_wins_over_configured_type(scans):
    files = [scans.reader(scans.batch(a=[1], z=[2.5])), scans.reader(scans.batch(a=[1]))]
    *_, last = scans.of(*files, columns=["a", "z"], missing_type=INT).batches()
    assert last.schema.field("z").type == pa.float64()


def test_column_of_only_nulls_counts_as_missing(scans):
    (batch,) = scans.of(scans.reader(scans.batch(z=pa.nulls(2))), columns=["z"], missing_type=INT).batches()
    assert batch.column(0).equals(pa.nulls(2, INT))


def test_members_of_no_file_are_filled_in_their_map(scans):
    reader = scans.reader(scans.batch(m=[{"x": 1}, None]))
    assert scans.read(reader, columns=["m.x", "m.z"]) == [{"m": {"x": 1, "z": None}}, {"m": None}]


def test_late_types_are_resolved_at_any_depth():
    late = TupleSchema([pa.field("a", LATE), pa.field("m", pa.struct([pa.field("l", pa.list_(LATE))]))])
    assert resolve_missing_types(late, TEXT) == TupleSchema(
        [pa.field("a", TEXT), pa.field("m", pa.struct([pa.field("l", pa.list_(TEXT))]))]
    )
