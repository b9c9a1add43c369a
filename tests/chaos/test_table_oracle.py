"""The oracle accepts exactly the possible contents."""

import pytest

from tests.chaos.table_oracle import Outcome, TableOracle, WrongAnswerError

OLD, NEW = frozenset({1, 2}), frozenset({1, 2, 3})


@pytest.fixture
def tables():
    tables = TableOracle()
    tables.record_change("t", OLD, Outcome.DONE)
    return tables


def test_successful_statement_must_be_visible(tables):
    tables.record_read("t", [2, 1], is_final=True)
    for wrong in ([1], [1, 2, 3], [], None):
        with pytest.raises(WrongAnswerError, match=r"it can only be \[1-2\]"):
            tables.record_read("t", wrong, is_final=True)


def test_refused_statement_must_have_no_effect(tables):
    tables.record_change("t", NEW, Outcome.REFUSED)
    tables.record_read("t", OLD, is_final=True)
    tables.record_change("u", NEW, Outcome.REFUSED)
    with pytest.raises(WrongAnswerError, match=r"table u is \[1-3\], but it can only be missing"):
        tables.record_read("u", NEW, is_final=True)


@pytest.mark.parametrize("seen", [OLD, NEW])
def test_lost_answer_permits_full_effect_or_none(tables, seen):
    tables.record_change("t", NEW, Outcome.UNKNOWN)
    assert not tables.is_certain("t")
    with pytest.raises(WrongAnswerError):
        tables.record_read("t", [1, 3], is_final=True)
    tables.record_read("t", seen, is_final=False)
    assert not tables.is_certain("t")
    tables.record_read("t", seen, is_final=True)
    assert tables.contents("t") == seen


def test_duplicate_rows_are_wrong(tables):
    with pytest.raises(WrongAnswerError, match="rows twice"):
        tables.record_read("t", [1, 2, 2], is_final=True)


def test_dropped_table_must_not_return(tables):
    tables.record_change("t", None, Outcome.DONE)
    assert tables.names() == []
    with pytest.raises(WrongAnswerError, match="it can only be missing"):
        tables.record_read("t", OLD, is_final=True)
