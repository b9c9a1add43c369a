"""Projection: unprojected columns accept everything and cost nothing, others get their promised type."""

from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.errors import LoaderStateError, SchemaConflictError, ValueConversionError
from engine.limits import BatchLimits
from engine.projection.filter import PROJECT_ALL, PROJECT_NONE, ProjectedColumn, ProjectionFilter
from engine.projection.list_filter import ListFilter
from engine.projection.project_list import ProjectionList
from engine.result_set.loader import ResultSetLoader
from engine.schema import TupleSchema
from engine.schema_tracker.tracker import ScanSchemaTracker


@dataclass(frozen=True)
class Only:
    """A filter that projects the named columns as the given fields."""

    promised: dict[str, pa.Field | None] = field(default_factory=dict)
    members: ProjectionFilter = PROJECT_ALL
    is_empty: bool = False

    def project(self, field: pa.Field) -> ProjectedColumn:
        if field.name not in self.promised:
            return ProjectedColumn(None, PROJECT_NONE)
        return ProjectedColumn(self.promised[field.name] or field, self.members)


def make_loader(projection: ProjectionFilter, *fields: pa.Field, **limits: Any) -> ResultSetLoader:
    loader = ResultSetLoader(schema=TupleSchema(fields), projection=projection, limits=BatchLimits(**limits))
    loader.start_batch()
    return loader


S = pa.field("s", pa.string())
N = pa.field("n", pa.int32())


def test_unprojected_column_is_in_schema_but_not_in_batch() -> None:
    loader = make_loader(Only({"n": None}), S, N)
    assert loader.writer.schema.names == ["s", "n"]
    assert not loader.writer.is_projected("S")
    assert loader.writer.is_projected("n")
    assert not loader.writer.is_projected("unknown")
    loader.writer.set_row("x", 1)
    assert loader.writer.add_column(pa.field("late", pa.string())) == 2
    loader.writer.set_row("x", 2, "y")
    assert loader.harvest().to_pylist() == [{"n": 1}, {"n": 2}]


def test_dummy_writer_takes_everything_and_never_fills_batch() -> None:
    nested = pa.field("m", pa.struct([pa.field("l", pa.list_(pa.map_(pa.string(), pa.int8())))]))
    loader = make_loader(Only({"n": None}), nested, N, vector_bytes=64)
    column = loader.writer.column("m")
    for number in range(10):
        loader.writer.start_row()
        entry = column.column("l").element
        entry.key.set_string("x" * 1000)
        entry.value.set_null()
        entry.save()
        column.column("l").save()
        column.column(column.add_column(S)).append_bytes(b"y" * 1000)
        loader.writer.column("n").set_int(number)
        loader.writer.save_row()
    assert loader.harvest().num_rows == 10


def test_single_members_of_maps_are_projected() -> None:
    struct = pa.struct([S, N])
    promised = pa.struct([N])
    projection = Only({"m": pa.field("m", promised), "l": pa.field("l", pa.list_(promised))}, members=Only({"n": None}))
    loader = make_loader(projection, pa.field("m", struct), pa.field("l", pa.list_(struct)))
    loader.writer.set_row({"s": "x", "n": 1}, [{"s": "y", "n": 2}, {"n": 3}])
    loader.append(pa.table({"m": [{"s": "x", "n": 4}], "l": [[{"n": 5, "s": "z"}]]}))
    assert loader.harvest().to_pylist() == [
        {"m": {"n": 1}, "l": [{"n": 2}, {"n": 3}]},
        {"m": {"n": 4}, "l": [{"n": 5}]},
    ]


def test_promised_member_may_come_late() -> None:
    promised = pa.field("m", pa.struct([pa.field("x", pa.int64()), N]))
    loader = make_loader(Only({"m": promised}), pa.field("m", pa.struct([N])))
    loader.writer.set_row({"n": 1})
    member = loader.writer.column("m")
    loader.writer.start_row()
    member.column(member.add_column(pa.field("x", pa.int8()))).set_int(5)
    loader.writer.save_row()
    assert loader.harvest().to_pylist() == [{"m": {"x": None, "n": 1}}, {"m": {"x": 5, "n": None}}]


def test_batch_has_promised_name_and_type() -> None:
    loader = make_loader(Only({"n": pa.field("N", pa.int64(), nullable=False)}), N)
    loader.writer.set_row(1)
    loader.append(pa.table({"n": pa.array([2], pa.int8())}))
    batch = loader.harvest()
    assert batch.schema == pa.schema([pa.field("N", pa.int64(), nullable=False)])
    assert batch.to_pylist() == [{"N": 1}, {"N": 2}]


@pytest.mark.parametrize(("offered", "promised", "value", "shown"), [
    (pa.string(), pa.int32(), "12", 12),
    (pa.string(), pa.date32(), "2024-02-29", date(2024, 2, 29)),
    (pa.int32(), pa.string(), 12, "12"),
    (pa.int32(), pa.float64(), 12, 12.0),
    (pa.bool_(), pa.string(), True, "true"),
    (pa.list_(pa.string()), pa.list_(pa.int8()), ["1", None], [1, None]),
])  # fmt: skip
def test_written_values_are_converted_to_promised_type(offered: Any, promised: Any, value: Any, shown: Any) -> None:
    loader = make_loader(Only({"c": pa.field("c", promised)}), pa.field("c", offered))
    loader.writer.set_row(value)
    loader.writer.set_row(None)
    loader.append(pa.table({"c": pa.array([value], offered)}))
    assert loader.harvest().column(0).to_pylist() == [shown, None, shown]


def test_unconvertible_written_value_names_its_place() -> None:
    loader = make_loader(Only({"s": pa.field("s", pa.int32())}), S)
    loader.context = loader.context.at("line 3")
    loader.writer.start_row()
    with pytest.raises(ValueConversionError, match="line 3: column 's' must be int, but the value is 'many'"):
        loader.writer.column("s").set_string("many")


def test_unconvertible_appended_value_names_its_row() -> None:
    loader = make_loader(Only({"s": pa.field("s", pa.int32())}), S)
    with pytest.raises(ValueConversionError, match="row 2: column 's' must be int, but the value is 'many'"):
        loader.append(pa.table({"s": ["1", "many"]}))
    loader.append(pa.table({"s": ["1"]}))
    assert loader.harvest().to_pylist() == [{"s": 1}]


def test_unconvertible_type_is_refused_when_column_is_added() -> None:
    with pytest.raises(SchemaConflictError, match="column 'n' is int here, but date"):
        make_loader(Only({"n": pa.field("n", pa.date32())}), N)


def test_rows_are_counted_without_projected_columns() -> None:
    loader = make_loader(PROJECT_NONE, N, rows=4)
    loader.writer.set_row(1)
    loader.skip_rows(2)
    loader.append(pa.table({"n": [1, 2, 3]}))
    assert loader.is_full
    batches = [loader.harvest()]
    loader.start_batch()
    batches.append(loader.harvest())
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(4, 0), (2, 0)]


def test_skip_rows_fills_many_batches() -> None:
    loader = make_loader(PROJECT_NONE, rows=1000)
    loader.skip_rows(2500)
    sizes = [loader.harvest().num_rows]
    while loader.has_look_ahead:
        loader.start_batch()
        sizes.append(loader.harvest().num_rows)
    assert sizes == [1000, 1000, 500]


def test_skip_rows_with_projected_columns_is_refused() -> None:
    with pytest.raises(LoaderStateError, match="columns are projected"):
        make_loader(PROJECT_ALL, N).skip_rows(1)


def test_overflow_keeps_the_projection() -> None:
    loader = make_loader(Only({"s": None}), N, S, vector_bytes=100)
    for number in range(3):
        loader.writer.set_row(number, "x" * 40)
    assert loader.harvest().to_pylist() == [{"s": "x" * 40}] * 2
    loader.start_batch()
    assert loader.harvest().to_pylist() == [{"s": "x" * 40}]


def test_appended_slice_is_not_copied(loaders: Any) -> None:
    table = pa.table({"n": pa.array(range(100_000), pa.int64())})
    loader = loaders.of()
    loader.append(table)
    first, second = loaders.harvest_all(loader)
    address = table.column(0).chunk(0).buffers()[1].address
    assert first.column(0).buffers()[1].address == address
    assert second.column(0).buffers()[1].address == address
    assert [first.num_rows, second.num_rows] == [65_536, 34_464]


def test_dictionary_encoding_is_removed(loaders: Any) -> None:
    loader = loaders.of()
    loader.append(pa.table({"d": pa.array(["x", "y", "x"]).dictionary_encode()}))
    batch = loader.harvest()
    assert batch.schema.field("d").type == pa.string()
    assert batch.column(0).to_pylist() == ["x", "y", "x"]


def test_written_and_appended_rows_keep_their_order(loaders: Any) -> None:
    loader = loaders.of(N)
    loader.writer.set_row(1)
    loader.append(pa.table({"n": [2, 3]}))
    loader.writer.set_row(4)
    loader.append(pa.table({"n": [5], "late": ["x"]}))
    loader.writer.set_row(6, "y")
    batch = loader.harvest()
    assert batch.column("n").to_pylist() == [1, 2, 3, 4, 5, 6]
    assert batch.column("late").to_pylist() == [None] * 4 + ["x", "y"]


def test_union_is_refused(loaders: Any) -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])])
    with pytest.raises(SchemaConflictError, match="column 'u'"):
        loaders.of().append(pa.table({"u": union}))


KINDS = {
    "scalar": (pa.string(), "x"),
    "array": (pa.list_(pa.int32()), [1, None]),
    "array_of_arrays": (pa.list_(pa.list_(pa.int32())), [[1], []]),
    "map": (pa.struct([S, N]), {"s": "x", "n": 1}),
    "array_of_maps": (pa.list_(pa.struct([S])), [{"s": "x"}]),
    "dict": (pa.map_(pa.string(), pa.int32()), [("k", 1)]),
    "array_of_dicts": (pa.list_(pa.map_(pa.string(), pa.int32())), [[("k", 1)]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_late", [False, True])
def test_unprojected_column_of_any_kind_is_ignored(kind: str, is_late: bool) -> None:
    type_, value = KINDS[kind]
    column = pa.field("c", type_)
    loader = make_loader(Only({"n": None}), *([N] if is_late else [N, column]))
    loader.writer.set_row(0, *([] if is_late else [value]))
    if is_late:
        loader.writer.add_column(column)
    loader.writer.set_row(1, value)
    loader.append(pa.table({"n": pa.array([2], pa.int32()), "c": pa.array([value], type_)}))
    assert loader.harvest().to_pylist() == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_query_for_unknown_columns_counts_rows() -> None:
    wanted = ListFilter(ProjectionList.parse(["x", "y.z"]))
    loader = make_loader(wanted, N, pa.field("m", pa.struct([S])), rows=2)
    loader.writer.set_row(1, {"s": "x"})
    loader.append(pa.table({"n": pa.array([1, 2], pa.int32())}))
    assert (loader.harvest().num_rows, loader.has_look_ahead) == (2, True)
    loader.start_batch()
    loader.skip_rows(1)
    batch = loader.harvest()
    assert (batch.num_rows, batch.num_columns) == (2, 0)


def test_query_for_unknown_members_gets_empty_map() -> None:
    loader = make_loader(ListFilter(ProjectionList.parse(["m.x"])), pa.field("m", pa.struct([S])))
    loader.writer.set_row({"s": "x"})
    loader.append(pa.table({"m": [{"s": "y"}, None]}))
    batch = loader.harvest()
    assert batch.schema.field("m").type == pa.struct([])
    assert batch.column(0).to_pylist() == [{}, {}, None]


@pytest.mark.parametrize("is_strict", [False, True])
def test_only_strict_schema_leaves_out_other_columns(is_strict: bool) -> None:
    provided = TupleSchema([N, pa.field("m", pa.struct([S]))])
    tracker = ScanSchemaTracker(["*"], provided=provided, is_strict=is_strict)
    loader = make_loader(tracker.projection_filter(ErrorContext("dfs", "1.json")), N)
    loader.append(pa.table({"n": pa.array([1], pa.int32()), "m": [{"s": "x", "o": 2}], "z": [3]}))
    strict = {"n": 1, "m": {"s": "x"}}
    assert loader.harvest().to_pylist() == [strict if is_strict else {"n": 1, "m": {"s": "x", "o": 2}, "z": 3}]
