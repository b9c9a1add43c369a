"""Statements that run in threads."""

import threading

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

_LONGEST_SECONDS = 180.0


class RunningStatement:
    """A statement that runs in a thread."""

    def __init__(self, session: SparkSession, text: str) -> None:
        self._outcome: object = None
        self._thread = threading.Thread(target=self._run, args=(session, text), daemon=True)
        self._thread.start()

    def outcome(self) -> object:
        """Return the rows, or the error that the statement raised."""
        self._thread.join(_LONGEST_SECONDS)
        assert not self._thread.is_alive(), "the statement hangs"
        return self._outcome

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _run(self, session: SparkSession, text: str) -> None:
        try:
            self._outcome = session.sql(text).collect()
        except PySparkException as error:
            self._outcome = error


def condition_of(session: SparkSession, text: str) -> str | None:
    """Return the condition of a statement's error; None without an error."""
    try:
        session.sql(text).collect()
    except PySparkException as error:
        return error.getCondition() or str(error)
    return None
