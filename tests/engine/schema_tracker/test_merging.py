import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.context import ErrorContext
from engine.errors import SchemaConflictError
from engine.schema import TupleSchema, fold_case
from engine.schema_tracker.merging import merge_schemas

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


def merged(*schemas):
    files = (
        (TupleSchema(pa.field(name, *rest) for name, *rest in schema), ErrorContext("dfs", f"{number}.json"))
        for number, schema in enumerate(schemas)
    )
    return merge_schemas(files)


def test_columns_are_in_order_of_first_appearance():
    assert merged([("b", INT), ("a", INT)], [("c", INT), ("a", INT)]).names == ["b", "a", "c"]


def test_names_in_other_case_are_one_column():
    assert merged([("Id", INT)], [("ID", LONG)]) == TupleSchema([pa.field("Id", LONG)])


def test_column_missing_in_a_file_is_nullable():
    for schema in (
        merged([("a", INT, False)], [("a", INT, False), ("b", INT, False)]),
        merged([("a", INT, False), ("b", INT, False)], [("a", INT, False)]),
    ):
        assert not schema.find("a").nullable
        assert schema.find("b").nullable


def test_column_late_in_one_file_has_type_of_the_other():
    assert merged([("a", pa.null())], [("a", pa.struct([("x", INT)]))]).find("a").type == pa.struct([("x", INT)])


def test_column_late_in_all_files_stays_late():
    assert merged([("a", pa.null())], [("a", pa.null())]).find("a").type == pa.null()


def test_no_files_have_no_columns():
    assert merged() == TupleSchema()


def test_conflict_names_column_file_and_types():
    with pytest.raises(SchemaConflictError) as raised:
        merged([("n", INT)], [("n", LONG)], [("N", TEXT)])
    assert raised.value.column == "n"
    assert (raised.value.offered, raised.value.promised) == ("string", "bigint")
    assert str(raised.value).startswith("'2.json' in workspace 'dfs': column 'n' is string here, but bigint")


def test_conflict_in_map_names_the_member():
    maps = [pa.list_(pa.struct([("x", INT), ("y z", pa.struct([("v", type_)]))])) for type_ in (INT, TEXT)]
    with pytest.raises(SchemaConflictError) as raised:
        merged([("m", maps[0])], [("m", maps[1])])
    assert raised.value.column == "m.`y z`.v"
    assert (raised.value.offered, raised.value.promised) == ("string", "int")


types = st.sampled_from([(pa.int8(), False), (INT, True), (INT, False), (LONG, False), (pa.null(), True)])
columns = st.builds(lambda name, type_: (name, *type_), st.sampled_from(["a", "A", "b"]), types)
schemas = st.lists(st.lists(columns, max_size=2, unique_by=lambda column: fold_case(column[0])), max_size=4)


@given(schemas.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_order_of_files_changes_no_type_or_mode(files):
    def meaning(schema):
        return {(fold_case(field.name), field.type, field.nullable) for field in schema}

    some, others = files
    assert meaning(merged(*some)) == meaning(merged(*others))
