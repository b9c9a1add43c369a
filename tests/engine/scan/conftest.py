"""Fixtures for scans of readers in memory."""

from dataclasses import dataclass

import pyarrow as pa
import pytest

from engine.context import ErrorContext
from engine.projection.project_list import ProjectionList
from engine.scan.reader import SourceFile
from engine.scan.scan import Scan, ScanInput, ScanPlan
from engine.schema import TupleSchema


class FakeReader:
    """A reader that produces given batches, and fails where the test wants.

    Args:
        steps: The result of each ``next``: a batch, None for no rows, or an exception to raise.
        schema: The schema that the reader knows before it reads.
        fails_at: Where the reader fails: ``start``, ``open`` or ``close``.
        error: The exception that it raises there.
        is_empty: Whether ``open`` returns that there are no rows.
        ends_late: Whether the end comes with a ``next`` of its own, without rows.
    """

    def __init__(self, *steps, schema=None, fails_at="", error=None, is_empty=False, ends_late=False):
        self.steps = list(steps)
        self.schema = schema
        self.fails_at = fails_at
        self.error = error or ValueError("no luck")
        self.is_empty = is_empty
        self.ends_late = ends_late
        self.opened = self.closed = 0
        self.projected = None

    def fail_at(self, action):
        if self.fails_at == action:
            raise self.error

    def open(self, negotiator):
        self.opened += 1
        self.fail_at("open")
        if self.is_empty:
            return False
        if self.schema is not None:
            negotiator.table_schema(TupleSchema.of(self.schema), is_complete=True)
        self.projected = [name for name in ("a", "b", "c") if negotiator.is_projected(name)]
        self.loader = negotiator.build()
        return True

    def next(self):
        if not self.steps:
            return False
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if step is not None:
            self.loader.append(step)
        return self.ends_late or bool(self.steps)

    def close(self):
        self.closed += 1
        self.fail_at("close")


@dataclass(frozen=True)
class Scans:
    """Makes readers, and scans of them. Their files are ``0.x``, ``1.x`` and so on."""

    def reader(self, *steps, **how):
        return FakeReader(*steps, **how)

    def batch(self, **columns):
        return pa.record_batch(columns)

    def of(self, *readers, selected=".", columns=None, paths=None, **plan):
        """Return a scan. ``columns`` are the elements of a project list."""

        def start(reader):
            reader.fail_at("start")
            return reader

        paths = paths or [f"{number}.x" for number in range(len(readers))]
        inputs = [
            ScanInput(SourceFile("dfs", path, 1, lambda: None), lambda reader=reader: start(reader))
            for path, reader in zip(paths, readers, strict=True)
        ]
        if columns is not None:
            plan["projection"] = ProjectionList.parse(columns)
        return Scan(inputs, ScanPlan(selected=selected, **plan), ErrorContext("dfs"))

    def read(self, *readers, **plan):
        return [row for batch in self.of(*readers, **plan).batches() for row in batch.to_pylist()]


@pytest.fixture(scope="session")
def scans():
    return Scans()
