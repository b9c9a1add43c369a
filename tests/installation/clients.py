"""Clients that work without pause while Lodge changes, and check each result."""

import statistics
import time
from types import TracebackType
from typing import Self

from tests.chaos.checking_clients import CheckingClient
from tests.chaos.table_changes import Action
from tests.installation.installation import Installation, wait_until

CLIENTS = 3
_CHANGES = (Action.INSERT, Action.OVERWRITE)
"""The changes of tables that all versions of Lodge have, also the older version of these tests."""
_PROGRESS_SECONDS = 180.0


class Clients:
    """A context manager of clients, each with a service account of its own. They leave at its end.

    Args:
        installation: The release that the clients use.
    """

    def __init__(self, installation: Installation) -> None:
        self._clients = [
            CheckingClient(installation.connect(name), name, repeats_canceled=True, changes=_CHANGES)
            for name in (f"client-{number}" for number in range(CLIENTS))
        ]

    def __enter__(self) -> Self:
        for client in self._clients:
            client.start()
        self.check_progress()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._leave()
        if error is None:
            self._check()

    def check_progress(self) -> None:
        """Wait until each client has got three more answers, and check that all answers were right."""
        before = [len(client.pauses) for client in self._clients]

        def have_all_worked() -> bool:
            pauses = [len(client.pauses) for client in self._clients]
            return any(client.problem for client in self._clients) or all(
                now >= then + 3 for now, then in zip(pauses, before, strict=True)
            )

        wait_until(have_all_worked, "all clients work", _PROGRESS_SECONDS)
        self._check()

    def summary(self, first: int = 0) -> str:
        """Return a summary of the pauses, without the first ones of each client."""
        pauses = [pause for client in self._clients for pause in client.pauses[first:]]
        return f"{len(pauses)} requests, longest pause {max(pauses):.1f} s, median {statistics.median(pauses):.2f} s"

    def _leave(self) -> None:
        for client in self._clients:
            client.ask_to_stop()
        deadline = time.monotonic() + _PROGRESS_SECONDS
        for client in self._clients:
            client.wait_until_stopped(deadline)

    def _check(self) -> None:
        problems = [f"{client.name}: {client.problem}" for client in self._clients if client.problem is not None]
        assert not problems, "\n".join(problems)
