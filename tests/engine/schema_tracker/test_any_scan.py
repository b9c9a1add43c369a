"""Properties of the schema of every scan."""

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import SchemaConflictError
from engine.schema import TupleSchema, fold_case
from engine.schema_tracker.tracker import ScanSchemaTracker

LEAVES = st.sampled_from([pa.int32(), pa.int64(), pa.string(), pa.null(), pa.list_(pa.int32())])
MAPS = st.dictionaries(st.sampled_from("xyz"), LEAVES, min_size=1).map(lambda members: pa.struct(list(members.items())))
READERS = st.lists(st.dictionaries(st.sampled_from("abcAB"), LEAVES | MAPS, max_size=4), max_size=4)
LISTS = st.lists(st.sampled_from(["*", "a", "b", "B", "c", "x"]), max_size=4)
CHANGES = st.tuples(st.booleans(), st.booleans())
PROVIDED = st.dictionaries(st.sampled_from("abc"), LEAVES | MAPS, max_size=2)


def is_kept(before, after):
    """Return whether a type only gained members."""
    if pa.types.is_struct(before):
        members = {member.name: member.type for member in after}
        return all(is_kept(member.type, members[member.name]) for member in before)
    return before == after


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LISTS, PROVIDED, st.tuples(READERS, CHANGES))
def test_columns_stay_and_each_change_is_a_version(read, schema, elements, provided, scan):
    readers, (is_strict, may_change) = scan
    types = schema(**provided)
    tracker = ScanSchemaTracker(elements, provided=types, is_strict=is_strict, allows_schema_change=may_change)
    for columns in readers:
        before, version, was_resolved = tracker.output_schema(), tracker.schema_version(), tracker.is_resolved()
        unique = {fold_case(name): (name, type_) for name, type_ in columns.items()}
        try:
            batch = read(tracker, dict(unique.values()))
        except SchemaConflictError:
            return
        after = tracker.output_schema()
        assert (tracker.schema_version() > version) == (after != before)
        assert not (was_resolved and not tracker.is_resolved())
        assert len(after) >= len(before)
        if was_resolved:
            assert after.names[: len(before)] == before.names
            assert all(is_kept(one.type, other.type) for one, other in zip(before, after, strict=False))
            assert may_change or after == before
        assert {fold_case(name) for name in batch.names} <= {fold_case(name) for name in after.names}
        assert tracker.missing_columns(after) == TupleSchema() or not tracker.is_resolved()
