"""Actions that run concurrently, each at its own time."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from tests.chaos.site import Site

_LATEST_SECONDS = 3.0
_LONGEST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class TimedAction:
    """An action on a Lodge.

    Attributes:
        name: The name, for people.
        wait: Returns when it is time.
        run: Performs the action.
    """

    name: str
    wait: Callable[[], None]
    run: Callable[[], None]


def choose_moment(site: Site, random: Random) -> Callable[[], None]:
    """Return a wait: a random time, or until a statement or a removal is in progress."""
    seconds = random.uniform(0, _LATEST_SECONDS)
    waits: Sequence[Callable[[], None]] = (
        lambda: time.sleep(seconds),
        lambda: _wait_until(lambda before: bool(_tables(site) - before), lambda: _tables(site)),
        lambda: _wait_until(lambda before: bool(before - _tables(site)), lambda: _tables(site)),
        lambda: _wait_until(lambda before: bool(_trash(site) - before), lambda: _trash(site)),
    )
    return random.choice(waits)


def run_concurrently(actions: Sequence[TimedAction]) -> list[str]:
    """Run all actions concurrently, and return the problems."""
    problems: list[str] = []

    def run(action: TimedAction) -> None:
        try:
            action.wait()
            action.run()
        except Exception as error:  # noqa: BLE001 - each failure is a problem
            problems.append(f"{action.name}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(each,), daemon=True, name=each.name) for each in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LONGEST_SECONDS)
        if thread.is_alive():
            problems.append(f"{thread.name} did not end")
    return problems


def _wait_until(is_time: Callable[[frozenset[str]], bool], read: Callable[[], frozenset[str]]) -> None:
    deadline = time.monotonic() + _LATEST_SECONDS
    before = read()
    while not is_time(before) and time.monotonic() < deadline:
        time.sleep(0.005)


def _tables(site: Site) -> frozenset[str]:
    """Return the directories of all tables."""
    with suppress(OSError):  # another fault removed the storage
        return frozenset(str(path) for path in site.workspace.glob("*-*/*-*"))
    return frozenset()


def _trash(site: Site) -> frozenset[str]:
    with suppress(OSError):
        return frozenset(path.name for path in site.trash())
    return frozenset()
