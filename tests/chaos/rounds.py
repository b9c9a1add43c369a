"""Rounds: clients work while faults happen, and the result must be right.

A round proves:

1. A session with a surviving holder lives on. Its tables have the expected content, and it can create more.
2. A lost session is lost completely: its client gets an error, and its location, record, trash and lease are gone. The
   same holds for clients that left or vanished.
3. Nothing hangs, no process has ended by itself, and no log has a traceback.
4. No client sees an error that is not documented.

A round follows from its seed as far as real processes permit: the faults, their times and durations, and the actions of
each client. The scheduling by the kernel is not repeatable.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random

from tests.chaos.backend import ABANDONED_SECONDS
from tests.chaos.clients import Client, SessionLostError, Tally, run_for_all
from tests.chaos.faults import Fault, Harm, Scene
from tests.chaos.leftovers import find_leftovers, find_pending_changes, find_tracebacks
from tests.chaos.site import POLL_SECONDS, SLACK_SECONDS, Site
from tests.chaos.timed_actions import TimedAction, choose_moment, run_concurrently

CLIENTS = 4
_READING_SECONDS = 60.0
_TOUCH_SECONDS = 3.0


class RoundError(Exception):
    """A round found a violation."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a round.

    Attributes:
        seed: The seed of the round.
        faults: The faults, all within the same time.
        absence_seconds: How long an absent API server is absent, and how long a hung backend hangs.
        client_vanishes: Whether a client vanishes without releasing its session.
    """

    seed: str
    faults: Sequence[Fault]
    absence_seconds: float
    client_vanishes: bool = True


@dataclass(frozen=True, slots=True)
class InitialState:
    """The sessions before the faults.

    Attributes:
        sessions: The client session id of each client.
        holders: The gateways that serve each session.
    """

    sessions: Mapping[Client, str]
    holders: Mapping[str, Set[str]]

    def may_be_lost(self, session: str, harm: Harm) -> bool:
        """Return whether faults may have ended a session.

        That is so if it lost all holders, or if its end was requested.
        """
        if harm.backend or session in harm.sessions:
            return True
        if session not in self.holders:  # it started later
            return bool(harm.gateways)
        return self.holders[session] <= harm.gateways


class Rounds:
    """Rounds on one site. Clients continue from round to round.

    Args:
        site: The site.
        think_seconds: How long a client pauses at most between two statements.
        clients: The number of clients, at least three.
    """

    def __init__(self, site: Site, think_seconds: float = 0.0, clients: int = CLIENTS) -> None:
        self._site = site
        self._client_count = clients
        self._think_seconds = think_seconds
        self._clients: list[Client] = []
        self._created_clients = 0
        self._vanished: dict[str, float] = {}
        """Sessions of vanished clients, with the time when each is idle for too long."""

    def play(self, plan: Plan) -> str:
        """Play a round and return a summary for people.

        Raises:
            RoundError: If the round finds a violation.
        """
        begun = time.monotonic()
        random = Random(plan.seed)  # noqa: S311 - must be repeatable, not secret
        before = self._begin(random)
        leaver, vanisher = random.sample(self._clients, 2)
        leavings = [("leaving", leaver, leaver.leave)]
        if plan.client_vanishes:
            leavings.append(("vanishing", vanisher, vanisher.vanish))
        for _, client, _ in leavings:
            self._clients.remove(client)
        harm = Harm()
        actions = [TimedAction(name, choose_moment(self._site, random), action) for name, _, action in leavings]
        for fault in plan.faults:
            own = Random(random.random())  # noqa: S311 - one for each thread, so that it is repeatable
            scene = Scene(self._site, self._clients, own, harm, plan.absence_seconds)
            actions.append(_fault_action(fault, scene, choose_moment(self._site, random)))
        for client in before.sessions:
            client.storage_fails = any("storage" in fault.touches for fault in plan.faults)
            client.work()
        problems = [*run_concurrently(actions), *self._stop_clients()]
        _raise([*problems, *self._failures()])
        if plan.client_vanishes:
            self._vanished[vanisher.session_id] = time.monotonic() + ABANDONED_SECONDS + self._site.times.idle_seconds
        lost = self._check_clients(before, harm)
        outdated_seconds = self._site.store.outdated_seconds
        self._wait_until_empty(lambda: find_leftovers(self._site, self._live(), self._tolerated()), outdated_seconds)
        _raise(find_tracebacks(self._site))
        summary = _summarise([client.tally for client in before.sessions])
        return f"{time.monotonic() - begun:.1f} s; {summary}; {lost} sessions lost"

    def end(self) -> None:
        """Let all clients leave, and check that nothing remains.

        Raises:
            RoundError: If something remains.
        """
        _raise(run_for_all(self._clients, Client.leave))
        self._clients = []
        latest = max(self._vanished.values(), default=0.0)
        more_seconds = max(latest - time.monotonic(), self._site.store.outdated_seconds)
        self._wait_until_empty(lambda: find_leftovers(self._site, frozenset()), more_seconds)
        _raise([*self._failures(), *find_tracebacks(self._site)])

    def _begin(self, random: Random) -> InitialState:
        """Ensure that there are enough clients, each with a session that gateways serve."""
        while len(self._clients) < self._client_count:
            self._created_clients += 1
            gateways = random.sample(self._site.gateways, len(self._site.gateways))
            own = Random(random.random())  # noqa: S311 - must be repeatable, not secret
            self._clients.append(Client(f"client-{self._created_clients}", gateways, own, self._think_seconds))
        _raise(run_for_all(self._clients, Client.ensure_session))
        return InitialState({client: client.session_id for client in self._clients}, self._site.holders())

    def _check_clients(self, before: InitialState, harm: Harm) -> int:
        """Check all clients and return the number of lost sessions.

        Raises:
            RoundError: If a session is lost or lives without reason.
        """
        self._wait_until_empty(lambda: find_pending_changes(self._site, self._live()))
        lost: list[str] = []

        def check(client: Client) -> None:
            try:
                client.check(_READING_SECONDS)
                client.check_writable(_READING_SECONDS)
            except SessionLostError:
                lost.append(client.session_id)
                client.ensure_session()

        problems = list(run_for_all(self._clients, check))
        lost += [session for client in self._clients for session in client.take_lost_sessions()]
        problems += [f"session {each} was lost without reason" for each in lost if not before.may_be_lost(each, harm)]
        problems += [f"session {each} lives on although it was deleted" for each in harm.sessions - set(lost)]
        _raise(problems)
        return len(set(lost))

    def _stop_clients(self) -> Sequence[str]:
        """Wait until no client works, and return the problems.

        Clients that have stopped keep their sessions alive.
        """
        problems: list[str] = []
        stopping = threading.Thread(
            target=lambda: problems.extend(run_for_all(self._clients, Client.stop_working)), daemon=True
        )
        stopping.start()
        while stopping.is_alive():
            stopping.join(_TOUCH_SECONDS)
            run_for_all([client for client in self._clients if client.has_stopped], Client.ping)
        return problems

    def _live(self) -> Set[str]:
        return {client.session_id for client in self._clients}

    def _tolerated(self) -> Set[str]:
        now, limit_seconds = time.monotonic(), self._limit_seconds()
        return {session for session, idle in self._vanished.items() if now < idle + limit_seconds}

    def _limit_seconds(self) -> float:
        return self._site.times.lost_seconds + SLACK_SECONDS

    def _wait_until_empty(self, found: Callable[[], Sequence[str]], more_seconds: float = 0.0) -> None:
        """Wait until nothing is found. All clients keep their sessions alive."""
        begun = touched = time.monotonic()
        while still := found():
            now = time.monotonic()
            if now > begun + more_seconds + self._limit_seconds():
                raise RoundError(f"{now - begun:.0f} s after the faults, these remain:\n" + "\n".join(still))
            if now > touched + _TOUCH_SECONDS:
                touched = now
                run_for_all(self._clients, Client.ping)
            time.sleep(POLL_SECONDS)

    def _failures(self) -> Sequence[str]:
        wrong = [f"client {client.name}: {client.problem}" for client in self._clients if client.problem is not None]
        processes = [replica.process for replica in self._site.replicas] + [self._site.testbed.backend.process]
        return wrong + [f"{process.name} has ended by itself" for process in processes if process.has_ended()]


def _fault_action(fault: Fault, scene: Scene, wait: Callable[[], None]) -> TimedAction:
    return TimedAction(fault.name, wait, lambda: fault.run(scene))


def _summarise(accounts: Sequence[Tally]) -> str:
    done, refused, unknown = (sum(getattr(each, name) for each in accounts) for name in ("done", "refused", "unknown"))
    return f"{done} statements done, {refused} refused, {unknown} without an answer"


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise RoundError("\n".join(problems))
