"""The judge of the faults, judged: it takes what may be, and nothing else."""

import pytest

from tests.chaos.knowledge import Fate, TableKnowledge, WrongAnswerError

OLD, NEW = frozenset({1, 2}), frozenset({1, 2, 3})


@pytest.fixture
def tables():
    tables = TableKnowledge()
    tables.changed("t", OLD, Fate.DONE)
    return tables


def test_what_was_answered_must_be_there(tables):
    tables.seen("t", [2, 1], is_final=True)
    for wrong in ([1], [1, 2, 3], [], None):
        with pytest.raises(WrongAnswerError, match=r"it can only be \[1-2\]"):
            tables.seen("t", wrong, is_final=True)


def test_of_a_refused_statement_nothing_may_be_left(tables):
    tables.changed("t", NEW, Fate.REFUSED)
    tables.seen("t", OLD, is_final=True)
    tables.changed("u", NEW, Fate.REFUSED)
    with pytest.raises(WrongAnswerError, match=r"table u is \[1-3\], but it can only be missing"):
        tables.seen("u", NEW, is_final=True)


@pytest.mark.parametrize("seen", [OLD, NEW])
def test_of_a_statement_without_an_answer_all_may_be_there_or_nothing(tables, seen):
    tables.changed("t", NEW, Fate.UNKNOWN)
    assert not tables.is_certain("t")
    with pytest.raises(WrongAnswerError):
        tables.seen("t", [1, 3], is_final=True)
    tables.seen("t", seen, is_final=False)
    assert not tables.is_certain("t")
    tables.seen("t", seen, is_final=True)
    assert tables.contents("t") == seen


def test_rows_that_are_there_twice_are_wrong(tables):
    with pytest.raises(WrongAnswerError, match="rows twice"):
        tables.seen("t", [1, 2, 2], is_final=True)


def test_a_dropped_table_may_not_come_back(tables):
    tables.changed("t", None, Fate.DONE)
    assert tables.names() == []
    with pytest.raises(WrongAnswerError, match="it can only be missing"):
        tables.seen("t", OLD, is_final=True)
