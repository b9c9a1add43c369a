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


def test_columns_stand_in_the_order_in_which_they_first_appear():
    assert merged([("b", INT), ("a", INT)], [("c", INT), ("a", INT)]).names == ["b", "a", "c"]


def test_names_that_differ_by_letter_case_are_one_column_with_the_first_spelling():
    assert merged([("Id", INT)], [("ID", LONG)]) == TupleSchema([pa.field("Id", LONG)])


def test_a_column_is_nullable_if_a_file_lacks_it_first_or_last():
    for schema in (
        merged([("a", INT, False)], [("a", INT, False), ("b", INT, False)]),
        merged([("a", INT, False), ("b", INT, False)], [("a", INT, False)]),
    ):
        assert not schema.find("a").nullable
        assert schema.find("b").nullable


def test_a_column_that_only_one_file_knows_the_type_of_has_that_type():
    assert merged([("a", pa.null())], [("a", pa.struct([("x", INT)]))]).find("a").type == pa.struct([("x", INT)])


def test_a_column_that_no_file_knows_the_type_of_stays_late():
    assert merged([("a", pa.null())], [("a", pa.null())]).find("a").type == pa.null()


def test_no_files_have_no_columns():
    assert merged() == TupleSchema()


def test_a_conflict_names_column_file_and_both_types():
    with pytest.raises(SchemaConflictError) as raised:
        merged([("n", INT)], [("n", LONG)], [("N", TEXT)])
    assert raised.value.column == "n"
    assert (raised.value.offered, raised.value.promised) == (TEXT, LONG)
    assert str(raised.value).startswith("'2.json' in workspace 'dfs': column 'n' is string here, but int64")


def test_a_conflict_in_a_map_names_the_member():
    maps = [pa.list_(pa.struct([("x", INT), ("y z", pa.struct([("v", type_)]))])) for type_ in (INT, TEXT)]
    with pytest.raises(SchemaConflictError) as raised:
        merged([("m", maps[0])], [("m", maps[1])])
    assert raised.value.column == "m.`y z`.v"
    assert (raised.value.offered, raised.value.promised) == (TEXT, INT)


types = st.sampled_from([(pa.int8(), False), (INT, True), (INT, False), (LONG, False), (pa.null(), True)])
columns = st.builds(lambda name, type_: (name, *type_), st.sampled_from(["a", "A", "b"]), types)
schemas = st.lists(st.lists(columns, max_size=2, unique_by=lambda column: fold_case(column[0])), max_size=4)


@given(schemas.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_the_order_of_the_files_changes_no_type_and_no_mode(files):
    def meaning(schema):
        return {(fold_case(field.name), field.type, field.nullable) for field in schema}

    some, others = files
    assert meaning(merged(*some)) == meaning(merged(*others))
