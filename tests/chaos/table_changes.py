"""Statements that change tables, and the contents that the tables have after success.

Each table has the columns ``id``, ``slept`` and ``parity``, which is that of the id, and columns that were added later.
Each statement writes new ids.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pyspark.sql.connect.session import SparkSession

from tests.chaos.table_oracle import Contents, TableContents

COLUMNS = 3
"""The number of columns of a new table."""

_MOST_ADDED_COLUMNS = 3


class Action(enum.Enum):
    CREATE = "create"
    REPLACE = "replace"
    INSERT = "insert"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite partitions"
    UPDATE = "update"
    MERGE = "merge"
    ADD_COLUMN = "add column"
    RENAME = "rename"
    DROP = "drop"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the content of its table after success.

    Attributes:
        action: The kind of the statement.
        table: The name of the table.
        text: The SQL text. For ``OVERWRITE_PARTITIONS``, the query whose rows a DataFrame call writes.
        after: The content of the table after success.
        new_name: The name of the table after success, if the statement renames it.
    """

    action: Action
    table: str
    text: str
    after: Contents = None
    new_name: str = ""

    def run(self, session: SparkSession) -> Sequence[object]:
        """Run the statement and return its rows."""
        frame = session.sql(self.text)
        if self.action is Action.OVERWRITE_PARTITIONS:
            frame.writeTo(self.table).overwritePartitions()
            return []
        return frame.collect()


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows that a statement writes.

    Attributes:
        ids: The ids.
        milliseconds: How long the statement sleeps for each row.
        files: The number of files in which Spark writes the rows.
    """

    ids: range
    milliseconds: int = 0
    files: int = 1

    def query(self) -> str:
        return f"select *, id % 2 parity from ({rows(self.ids, milliseconds=self.milliseconds, files=self.files)})"


def rows(ids: range, *, milliseconds: int = 0, files: int = 1) -> str:
    """Return a query of rows with these ids.

    Args:
        ids: The ids.
        milliseconds: How long the query sleeps for each row.
        files: The number of files in which Spark writes the rows.
    """
    pause = f"java_method('java.lang.Thread', 'sleep', {milliseconds} + id * 0)"
    return f"select id, {pause} slept from range({ids.start}, {ids.stop}, 1, {files})"


def create(table: str, new: NewRows, *, is_partitioned: bool = False, replaces: bool = False) -> Statement:
    """Return a statement that creates a table, or replaces it if it exists."""
    action = Action.REPLACE if replaces else Action.CREATE
    verb = "create or replace" if replaces else "create"
    partitions = " partitioned by (parity)" if is_partitioned else ""
    text = f"{verb} temporary table {table}{partitions} as {new.query()}"
    return Statement(action, table, text, TableContents(frozenset(new.ids)))


def drop(table: str) -> Statement:
    return Statement(Action.DROP, table, f"drop table {table}")


def read(table: str) -> Statement:
    return Statement(Action.READ, table, f"read {table}")


def rename(table: str, new_name: str, before: TableContents) -> Statement:
    return Statement(Action.RENAME, table, f"alter table {table} rename to {new_name}", before, new_name)


def change(
    action: Action, table: str, before: TableContents, new: NewRows, random: Random, *, is_partitioned: bool
) -> Statement:
    """Return a statement that changes a table.

    Args:
        action: The kind of the statement.
        table: The name of the table.
        before: The content of the table.
        new: The rows that the statement writes. Their ids are larger than all before.
        random: Chooses what the action leaves open.
        is_partitioned: Whether the table is partitioned by ``parity``.
    """
    if action is Action.REPLACE:
        return create(table, new, is_partitioned=is_partitioned, replaces=True)
    kept, ids, added_columns = before.ids, frozenset(new.ids), before.added_columns
    match action:
        case Action.INSERT:
            text, after = _insertion("into", table, new), kept | ids
        case Action.OVERWRITE:
            text, after = _insertion("overwrite", table, new), ids
        case Action.OVERWRITE_PARTITIONS:
            parity = random.choice(new.ids) % 2
            others = frozenset(each for each in kept if is_partitioned and each % 2 != parity)
            text = f"select * from ({new.query()}) where parity = {parity}"
            after = others | frozenset(each for each in ids if each % 2 == parity)
        case Action.UPDATE:
            moved = _choose_moved(before, new, random)
            text = _update(table, moved)
            after = kept - moved.ids | {each + moved.distance for each in moved.ids}
        case Action.MERGE:
            moved = _choose_moved(before, new, random)
            text, after = _merge(table, moved, new), kept - moved.ids | ids
        case Action.ADD_COLUMN if added_columns < _MOST_ADDED_COLUMNS:
            added_columns += 1
            text, after = f"alter table {table} add column extra_{added_columns} int", kept
        case _:
            return read(table)
    return Statement(action, table, text, TableContents(after, added_columns))


@dataclass(frozen=True, slots=True)
class _Moved:
    """Rows of a table whose ids a statement changes.

    Attributes:
        first: The first id that the condition of the statement includes.
        stop: The end of the ids that the condition includes.
        ids: Those of the ids that the table contains.
        distance: The difference between the new and the old ids. It is even, so the rows stay in their partitions.
    """

    first: int
    stop: int
    ids: frozenset[int]
    distance: int


def _choose_moved(before: TableContents, new: NewRows, random: Random) -> _Moved:
    """Choose as many ids as there are new ones, near a row of the table."""
    first = random.choice(sorted(before.ids)) if before.ids else 0
    if (new.ids.start - first) % 2:
        first += 1 if first + 1 in before.ids else -1
    stop = first + len(new.ids)
    ids = frozenset(each for each in before.ids if first <= each < stop)
    return _Moved(first, stop, ids, new.ids.start - first)


def _insertion(verb: str, table: str, new: NewRows) -> str:
    return f"insert {verb} {table} (id, slept, parity) {new.query()}"


def _update(table: str, moved: _Moved) -> str:
    """Return an ``UPDATE``. It does not sleep, because Spark refuses such expressions."""
    return f"update {table} set id = id + {moved.distance} where id >= {moved.first} and id < {moved.stop}"


def _merge(table: str, moved: _Moved, new: NewRows) -> str:
    return (
        f"merge into {table} old using ({new.query()}) new on old.id = new.id - {moved.distance} "
        "when matched then update set id = new.id, slept = new.slept "
        "when not matched then insert (id, slept, parity) values (new.id, new.slept, new.parity)"
    )
