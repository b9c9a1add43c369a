"""Things that happen beside each other, each at its moment."""

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
class Happening:
    """Something that a round does to a Lodge.

    Attributes:
        name: For people.
        moment: Returns when it is time.
        happen: Does it.
    """

    name: str
    moment: Callable[[], None]
    happen: Callable[[], None]


def moment(site: Site, random: Random) -> Callable[[], None]:
    """Chooses when: after a while, or in the middle of a statement or of a removal, if one comes in time."""
    seconds = random.uniform(0, _LATEST_SECONDS)
    waits: Sequence[Callable[[], None]] = (
        lambda: time.sleep(seconds),
        lambda: _until(lambda before: bool(_tables(site) - before), lambda: _tables(site)),
        lambda: _until(lambda before: bool(before - _tables(site)), lambda: _tables(site)),
        lambda: _until(lambda before: bool(_trash(site) - before), lambda: _trash(site)),
    )
    return random.choice(waits)


def happen(happenings: Sequence[Happening]) -> list[str]:
    """Lets all of it happen. Returns: What went wrong, if anything."""
    problems: list[str] = []

    def run(happening: Happening) -> None:
        try:
            happening.moment()
            happening.happen()
        except Exception as error:  # noqa: BLE001 - each one's is told
            problems.append(f"{happening.name}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=run, args=(each,), daemon=True, name=each.name) for each in happenings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LONGEST_SECONDS)
        if thread.is_alive():
            problems.append(f"{thread.name} has no end")
    return problems


def _until(has_come: Callable[[frozenset[str]], bool], look: Callable[[], frozenset[str]]) -> None:
    deadline = time.monotonic() + _LATEST_SECONDS
    before = look()
    while not has_come(before) and time.monotonic() < deadline:
        time.sleep(0.005)


def _tables(site: Site) -> frozenset[str]:
    """The directories of all tables."""
    with suppress(OSError):  # of storage that another fault took away
        return frozenset(str(path) for path in site.workspace.glob("*-*/*-*"))
    return frozenset()


def _trash(site: Site) -> frozenset[str]:
    with suppress(OSError):
        return frozenset(path.name for path in site.trash())
    return frozenset()
