"""The progress of discovery jobs, as responses to the client of a statement.

A progress message contains the state of all stages of a job. Therefore only the last message of a job is stored.

Guarantees:

1. A job that ends within ``PROGRESS_AFTER_SECONDS`` sends nothing. After a response, PySpark does not send a statement
   again if its gateway is lost. So most statements can be sent again, and a long discovery is not a silent one.
2. The response ids of progress differ from all response ids of Spark. Every replica recognises them.
"""

import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql.connect.proto import base_pb2

from gateway.backend_session import OnProgress

PROGRESS_AFTER_SECONDS = 5.0
"""How long a discovery job runs before the client receives its progress.

Discovery on a few thousand files takes less. A user waits as long without a progress bar.
"""

_RESPONSE_IDS = 0x4C6F6467_6500_8000_8000_000000000000  # "Lodge" in ASCII
_RESPONSE_ID_PREFIX = str(uuid.UUID(int=_RESPONSE_IDS))[:20]
_RANDOM_BITS = 60


def new_response_id() -> str:
    """Return a new random response id of the gateway.

    It is a UUID of version 8, which RFC 9562 leaves to applications. Spark's response ids have version 4.
    """
    return str(uuid.UUID(int=_RESPONSE_IDS | secrets.randbits(_RANDOM_BITS)))


def is_of_gateway(response_id: str) -> bool:
    """Return whether a response id was created by :func:`new_response_id`, at any replica."""
    return response_id.startswith(_RESPONSE_ID_PREFIX)


class DiscoveryProgress:
    """The progress of the discovery jobs of one statement, which run one after another.

    Args:
        after_seconds: How long a job runs before its progress is due.
        on_change: Called when there is new progress.

    Attributes:
        last: The last progress. It contains no session id and no operation id. None if there is none.
    """

    def __init__(self, after_seconds: float, on_change: Callable[[], object]) -> None:
        self._after_seconds = after_seconds
        self._on_change = on_change
        self._due_at_seconds = 0.0
        self.last: base_pb2.ExecutePlanResponse | None = None

    @property
    def due_in_seconds(self) -> float:
        """How long until the client may receive the last progress. Not positive if it may receive it now."""
        return self._due_at_seconds - time.monotonic()

    @contextmanager
    def job(self) -> Iterator[OnProgress]:
        """Report the progress of a discovery job that runs for the duration of the block.

        Yields:
            A function to call with each progress message of the job.
        """
        self._due_at_seconds = time.monotonic() + self._after_seconds
        try:
            yield self._take
        finally:
            if self.due_in_seconds > 0:
                self.last = None

    async def _take(self, response: base_pb2.ExecutePlanResponse) -> None:
        self.last = base_pb2.ExecutePlanResponse(
            response_id=new_response_id(),
            server_side_session_id=response.server_side_session_id,
            execution_progress=response.execution_progress,
        )
        self._on_change()
