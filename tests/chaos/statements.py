"""Statements under way in threads, and what became of them."""

import threading

from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

_LONGEST_SECONDS = 90.0


class Running:
    """A statement that a thread waits for."""

    def __init__(self, session: SparkSession, text: str) -> None:
        self._outcome: object = None
        self._thread = threading.Thread(target=self._run, args=(session, text), daemon=True)
        self._thread.start()

    def outcome(self) -> object:
        """The rows that it returned, or the error that it raised."""
        self._thread.join(_LONGEST_SECONDS)
        assert not self._thread.is_alive(), "the statement hangs"
        return self._outcome

    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    def _run(self, session: SparkSession, text: str) -> None:
        try:
            self._outcome = session.sql(text).collect()
        except PySparkException as error:
            self._outcome = error


def condition_of(session: SparkSession, text: str) -> str | None:
    """The condition of the error that a statement raises; None if it raises none."""
    try:
        session.sql(text).collect()
    except PySparkException as error:
        return error.getCondition() or str(error)
    return None
