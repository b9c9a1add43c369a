"""Rounds: clients work, faults happen, and then all must be as the clients know it, and nothing else be there.

What a round must show:

1. A session that a gateway held all the time lives on, each of its tables holds what its client knows, and more can be
   created.
2. A session that was lost is lost whole: its client is told so, and its location, record, trash and lease are gone;
   likewise that of a client that left, or vanished.
3. Nothing hangs, no process has died by itself, and no log has a traceback.

A round follows from its seed as far as processes can: which faults, to whom, when, for how long, and what each client
does; not how the kernel schedules all that.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from random import Random

from tests.chaos.backend import ABANDONED_SECONDS
from tests.chaos.clients import Account, Client, SessionLostError, all_of
from tests.chaos.faults import Fault, Harm, Scene
from tests.chaos.happenings import Happening, happen, moment
from tests.chaos.remains import remains, under_way
from tests.chaos.site import Site

SLACK_SECONDS = 20.0
"""What a removal may take beside lease and grace period: passes of the reaper, its election, and a busy machine."""

CLIENTS = 4
_READING_SECONDS = 30.0
_TOUCH_SECONDS = 3.0


class RoundError(Exception):
    """A round has shown what must not be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a round is to do.

    Attributes:
        seed: What it follows from.
        faults: What happens, all within the same time.
        absence_seconds: How long the API server is away, if it is.
    """

    seed: str
    faults: Sequence[Fault]
    absence_seconds: float


@dataclass(frozen=True, slots=True)
class Before:
    """What was there before the faults.

    Attributes:
        sessions: Each client's own id of its session.
        holders: The gateways that held each session.
    """

    sessions: Mapping[Client, str]
    holders: Mapping[str, Set[str]]

    def may_be_lost(self, session: str, harm: Harm) -> bool:
        """Whether the faults may have ended it: none of its holders was spared, or its end was asked for."""
        if harm.backend or session in harm.sessions:
            return True
        if session not in self.holders:  # it began later
            return bool(harm.gateways)
        return self.holders[session] <= harm.gateways


class Rounds:
    """Rounds on one site, whose clients go on from round to round.

    Args:
        site: Where.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._clients: list[Client] = []
        self._made = 0
        self._vanished: dict[str, float] = {}
        """Sessions of clients that vanished, with the time at which they are idle for too long."""

    def play(self, plan: Plan) -> str:
        """Returns: What happened, for people. Raises: RoundError"""
        begun = time.monotonic()
        random = Random(plan.seed)  # noqa: S311 - to be repeated, not to be secret
        before = self._begun(random)
        leaver, vanisher = random.sample(self._clients, 2)
        self._clients = [client for client in self._clients if client not in {leaver, vanisher}]
        harm = Harm()
        leavings = [("leaving", leaver.leave), ("vanishing", vanisher.vanish)]
        happenings = [Happening(name, moment(self._site, random), action) for name, action in leavings]
        for fault in plan.faults:
            own = Random(random.random())  # noqa: S311 - of each thread, so that its course is its own
            scene = Scene(self._site, self._clients, own, harm, plan.absence_seconds)
            happenings.append(_of_fault(fault, scene, moment(self._site, random)))
        for client in before.sessions:
            client.work()
        problems = [*happen(happenings), *all_of(self._clients, Client.calm)]
        _raise([*problems, *self._mishaps()])
        self._vanished[vanisher.session_id] = time.monotonic() + ABANDONED_SECONDS + self._site.times.idle_seconds
        lost = self._check_clients(before, harm)
        self._wait_until_none(lambda: remains(self._site, self._live(), self._tolerated()))
        _raise(self._tracebacks())
        told = _told([client.account for client in before.sessions])
        return f"{time.monotonic() - begun:.1f} s; {told}; {lost} sessions lost"

    def end(self) -> None:
        """All clients leave, and nothing may stay. Raises: RoundError"""
        _raise(all_of(self._clients, Client.leave))
        self._clients = []
        latest = max(self._vanished.values(), default=0.0)
        self._wait_until_none(lambda: remains(self._site, frozenset()), max(latest - time.monotonic(), 0.0))
        _raise([*self._mishaps(), *self._tracebacks()])

    def _begun(self, random: Random) -> Before:
        """Has enough clients, each with a session that gateways hold."""
        while len(self._clients) < CLIENTS:
            self._made += 1
            gateways = random.sample(self._site.gateways, len(self._site.gateways))
            self._clients.append(Client(f"client-{self._made}", gateways, Random(random.random())))  # noqa: S311
        _raise(all_of(self._clients, Client.greet))
        return Before({client: client.session_id for client in self._clients}, self._site.holders())

    def _check_clients(self, before: Before, harm: Harm) -> int:
        """Returns: How many sessions were lost. Raises: RoundError"""
        self._wait_until_none(lambda: under_way(self._site, self._live()))
        lost: list[str] = []

        def check(client: Client) -> None:
            try:
                client.check(_READING_SECONDS)
                client.prove(_READING_SECONDS)
            except SessionLostError:
                lost.append(client.session_id)
                client.greet()

        problems = list(all_of(self._clients, check))
        lost += [session for client in self._clients for session in client.lost_sessions()]
        problems += [f"session {each} was lost without need" for each in lost if not before.may_be_lost(each, harm)]
        problems += [f"session {each} lives on although it was deleted" for each in harm.sessions - set(lost)]
        _raise(problems)
        return len(set(lost))

    def _live(self) -> Set[str]:
        return {client.session_id for client in self._clients}

    def _tolerated(self) -> Set[str]:
        now, limit_seconds = time.monotonic(), self._limit_seconds()
        return {session for session, idle in self._vanished.items() if now < idle + limit_seconds}

    def _limit_seconds(self) -> float:
        return self._site.times.lost_seconds + SLACK_SECONDS

    def _wait_until_none(self, found: Callable[[], Sequence[str]], more_seconds: float = 0.0) -> None:
        """Waits until nothing is found any more; all clients show meanwhile that they live. Raises: RoundError"""
        begun = touched = time.monotonic()
        while still := found():
            now = time.monotonic()
            if now > begun + more_seconds + self._limit_seconds():
                raise RoundError(f"Still there {now - begun:.0f} s after the faults:\n" + "\n".join(still))
            if now > touched + _TOUCH_SECONDS:
                touched = now
                all_of(self._clients, Client.touch)
            time.sleep(0.1)

    def _mishaps(self) -> Sequence[str]:
        wrong = [f"client {client.name}: {client.problem}" for client in self._clients if client.problem is not None]
        processes = [replica.process for replica in self._site.replicas] + [self._site.ground.backend.process]
        return wrong + [f"{process.name} has ended by itself" for process in processes if process.has_ended()]

    def _tracebacks(self) -> Sequence[str]:
        return [f"{name} logged a traceback: {line[:2000]}" for name, line in _lines_with_tracebacks(self._site)]


def _of_fault(fault: Fault, scene: Scene, moment: Callable[[], None]) -> Happening:
    return Happening(fault.name, moment, lambda: fault.happens(scene))


def _lines_with_tracebacks(site: Site) -> Iterator[tuple[str, str]]:
    for name, log in site.logs().items():
        yield from ((name, line) for line in log.splitlines() if "Traceback" in line)


def _told(accounts: Sequence[Account]) -> str:
    done, refused, unknown = (sum(getattr(each, name) for each in accounts) for name in ("done", "refused", "unknown"))
    return f"{done} statements done, {refused} refused, {unknown} without an answer"


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise RoundError("\n".join(problems))
