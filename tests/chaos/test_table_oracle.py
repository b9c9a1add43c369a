"""The oracle accepts exactly the possible contents."""

from random import Random

import pytest
from pyspark.sql.connect.session import SparkSession

from tests.chaos.table_changes import COLUMNS, Action, NewRows, change, create, rename
from tests.chaos.table_oracle import Outcome, TableContents, TableOracle, WrongAnswerError

OLD, NEW = TableContents(frozenset({1, 2})), TableContents(frozenset({1, 2, 3}))
CHANGES = (
    Action.REPLACE,
    Action.INSERT,
    Action.OVERWRITE,
    Action.OVERWRITE_PARTITIONS,
    Action.UPDATE,
    Action.MERGE,
    Action.ADD_COLUMN,
)


def seeded(seed):
    return Random(seed)  # noqa: S311 - must be repeatable, not secret


@pytest.fixture
def tables():
    tables = TableOracle()
    tables.record_change("t", OLD, Outcome.DONE)
    return tables


@pytest.fixture
def spark(start_lodge, spark_server):
    session = SparkSession.builder.remote(start_lodge(backend=spark_server).address).create()
    yield session
    session.stop()


def test_successful_statement_must_be_visible(tables):
    tables.record_read("t", [2, 1], is_final=True)
    for wrong in ([1], [1, 2, 3], [], None):
        with pytest.raises(WrongAnswerError, match=r"it can only be \[1-2\]"):
            tables.record_read("t", wrong, is_final=True)


def test_refused_statement_must_have_no_effect(tables):
    tables.record_change("t", NEW, Outcome.REFUSED)
    tables.record_read("t", OLD.ids, is_final=True)
    tables.record_change("u", NEW, Outcome.REFUSED)
    with pytest.raises(WrongAnswerError, match=r"table u is \[1-3\], but it can only be missing"):
        tables.record_read("u", NEW.ids, is_final=True)


@pytest.mark.parametrize("seen", [OLD, NEW])
def test_lost_answer_permits_full_effect_or_none(tables, seen):
    tables.record_change("t", NEW, Outcome.UNKNOWN)
    assert not tables.is_certain("t")
    with pytest.raises(WrongAnswerError):
        tables.record_read("t", [1, 3], is_final=True)
    tables.record_read("t", seen.ids, is_final=False)
    assert not tables.is_certain("t")
    tables.record_read("t", seen.ids, is_final=True)
    assert tables.contents("t") == seen


def test_duplicate_rows_are_wrong(tables):
    with pytest.raises(WrongAnswerError, match="rows twice"):
        tables.record_read("t", [1, 2, 2], is_final=True)


def test_dropped_table_must_not_return(tables):
    tables.record_change("t", None, Outcome.DONE)
    assert tables.names() == []
    with pytest.raises(WrongAnswerError, match="it can only be missing"):
        tables.record_read("t", OLD.ids, is_final=True)


@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("action", CHANGES)
def test_lost_answer_of_each_change_permits_full_effect_or_none(action, is_partitioned):
    before = TableContents(frozenset(range(1000, 1010)))
    statement = change(action, "t", before, NewRows(range(2000, 2004)), seeded(1), is_partitioned=is_partitioned)
    after = statement.after
    assert after != before
    for seen in (before, after):
        tables = TableOracle()
        tables.record_change("t", before, Outcome.DONE)
        tables.record_change("t", after, Outcome.UNKNOWN)
        for wrong in (sorted(before.ids)[1:], [*after.ids, 9], None):
            with pytest.raises(WrongAnswerError):
                tables.record_read("t", wrong, after.added_columns, is_final=True)
        tables.record_read("t", seen.ids, seen.added_columns, is_final=True)
        assert tables.contents("t") == seen
        if seen != before:
            with pytest.raises(WrongAnswerError):
                tables.record_read("t", before.ids, is_final=True)


def test_overwritten_partitions_leave_the_others():
    before = TableContents(frozenset({1000, 1001}))
    new = NewRows(range(2000, 2001))
    found = [
        change(Action.OVERWRITE_PARTITIONS, "t", before, new, seeded(1), is_partitioned=each).after.ids
        for each in (False, True)
    ]
    assert found == [{2000}, {1001, 2000}]


def test_update_and_merge_replace_ids_by_new_ones():
    before = TableContents(frozenset(range(1000, 1004)))
    for number in range(20):
        new, own = NewRows(range(2000, 2003)), seeded(number)
        updated, merged = (
            change(action, "t", before, new, own, is_partitioned=True).after.ids
            for action in (Action.UPDATE, Action.MERGE)
        )
        assert len(updated) == len(before.ids)
        assert updated <= before.ids | set(new.ids)
        assert merged >= set(new.ids)
        for after in (updated, merged):
            assert after & set(new.ids)
            assert before.ids - after


def test_added_column_must_be_visible(tables):
    tables.record_change("t", TableContents(OLD.ids, 1), Outcome.DONE)
    with pytest.raises(WrongAnswerError, match=r"\[1-2\], but it can only be \[1-2\] with 1 added columns"):
        tables.record_read("t", OLD.ids, is_final=True)
    tables.record_change("t", create("t", NewRows(range(5)), replaces=True).after, Outcome.DONE)
    tables.record_read("t", range(5), is_final=True)


def test_renamed_table_has_only_the_new_name(tables):
    statement = rename("t", "u", OLD)
    tables.record_renaming("t", statement.new_name, Outcome.DONE)
    assert tables.names() == ["u"]
    tables.record_read("u", OLD.ids, is_final=True)
    with pytest.raises(WrongAnswerError, match="it can only be missing"):
        tables.record_read("t", OLD.ids, is_final=True)


@pytest.mark.parametrize("name", ["t", "u"])
def test_lost_answer_of_a_renaming_permits_one_of_both_names(tables, name):
    tables.record_renaming("t", "u", Outcome.UNKNOWN)
    assert tables.names() == ["t", "u"]
    tables.record_read(name, OLD.ids, is_final=True)
    (other,) = {"t", "u"} - {name}
    for ids in (OLD.ids, []):
        with pytest.raises(WrongAnswerError, match="it can only be missing"):
            tables.record_read(other, ids, is_final=True)
    tables.record_read(other, None, is_final=True)
    assert tables.names() == [name]


@pytest.mark.slow
def test_each_change_has_the_expected_effect_without_faults(spark):
    """One random history. The tables of the client must have the contents that the oracle expects."""
    random, tables = seeded(1), TableOracle()
    for is_partitioned in (False, True):
        statement = create("t", NewRows(range(100)), is_partitioned=is_partitioned, replaces=True)
        for step, action in enumerate([None, *CHANGES, *random.choices(CHANGES, k=10), *CHANGES], start=1):
            if action is not None:
                new = NewRows(range(1000 * step, 1000 * step + random.randint(1, 20)), files=2)
                before = tables.contents("t")
                statement = change(action, "t", before, new, random, is_partitioned=is_partitioned)
            if statement.action is not Action.READ:
                statement.run(spark)
                tables.record_change("t", statement.after, Outcome.DONE)
            frame = spark.table("t")
            ids = [row.id for row in frame.collect()]
            tables.record_read("t", ids, len(frame.columns) - COLUMNS, is_final=True)
