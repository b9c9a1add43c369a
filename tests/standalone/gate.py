"""Stops tasks in the middle of a scan until a test lets them continue.

A task consists of a Python worker that reads files, and of one that runs the function of the gate. The function holds
back the first batch. So the worker that reads files has begun, and has most of its rows before it.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

WAIT_SECONDS = 200


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a task.

    Attributes:
        partition: The number of the partition.
        attempt: The number of the attempt, from 0.
        directory: The working directory of the executor.
    """

    partition: int
    attempt: int
    directory: str


class Gate:
    """A gate in a directory that the executors can reach."""

    def __init__(self, directory: Path) -> None:
        self._arrivals = directory / "arrivals"
        self._arrivals.mkdir()
        self._open = directory / "open"

    def guard(self, frame: DataFrame) -> DataFrame:
        """Return the same rows from tasks that wait at the gate."""
        arrivals, is_open = self._arrivals, self._open

        def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            for number, batch in enumerate(batches):
                if number == 0:
                    task = TaskContext.get()
                    arrival = {"partition": task.partitionId(), "attempt": task.attemptNumber()}
                    part = arrivals / f"{uuid.uuid4()}.part"
                    part.write_text(json.dumps(arrival | {"directory": str(Path.cwd())}))
                    part.rename(part.with_suffix(".json"))
                    deadline = time.monotonic() + WAIT_SECONDS
                    while not is_open.exists():
                        if time.monotonic() > deadline:
                            raise TimeoutError("The test did not open the gate.")
                        time.sleep(0.05)
                yield batch

        return frame.mapInArrow(wait, frame.schema)

    def arrivals(self) -> list[Attempt]:
        """Return the attempts that have reached the gate."""
        return [Attempt(**json.loads(path.read_text())) for path in self._arrivals.glob("*.json")]

    def open(self) -> None:
        self._open.touch()
