"""Whether so many sessions look dead at once that it is rather the looking that is broken: no I/O, no clock.

Why it exists: a wrong clock, a namespace restored from a backup, or a network policy that keeps all gateways from
renewing their leases makes every session look dead, and every rule of :mod:`reaper.decisions` would be right in ending
it. Nobody wants that done before a person has looked.

Guarantees:

1. While more than the configured share of the sessions that go on, and at least the configured number, look dead at one
   look, none of them is ended. Ends go on once at each look during a whole grace period it was fewer, or once the
   operator confirmed.
2. A confirmation names a token, and the token stands for a set of sessions: those that looked dead when the operator
   was warned. Whatever looks dead later needs another one. A session that looked alive meanwhile lost its confirmation.
3. The same set of sessions has the same token, so that it may be confirmed to one reaper and done by the next.
4. A session whose end somebody asked for neither counts nor waits.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reaper.decisions import Snapshot
from workspace.records import SessionUuid

_TOKEN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class MassExpiryRule:
    """When to hold.

    Attributes:
        share: Of all sessions that go on, between 0 and 1; of 1, never.
        minimum_sessions: Fewer are never too many.
        grace_period_seconds: For how long it must have been fewer, before ends go on.
    """

    share: float = 1.0
    minimum_sessions: int = 1
    grace_period_seconds: float = 0.0

    def is_exceeded(self, dead: int, all_sessions: int) -> bool:
        return dead >= self.minimum_sessions and dead > self.share * all_sessions


NEVER = MassExpiryRule()


@dataclass(frozen=True, slots=True)
class MassExpiry:
    """What is held.

    Attributes:
        held: The sessions that must not be ended.
        all_sessions: How many sessions went on when they were first held.
        token: What confirms their end; empty if none are held.
        exceeded_seconds: When the last look ended that saw too many.
        confirmed: Sessions that may be ended although they are too many.
    """

    held: frozenset[SessionUuid] = frozenset()
    all_sessions: int = 0
    token: str = ""
    exceeded_seconds: float = float("-inf")
    confirmed: frozenset[SessionUuid] = frozenset()


def evaluate_mass_expiry(
    previous: MassExpiry, snapshot: Snapshot, rule: MassExpiryRule, confirmation: str | None
) -> MassExpiry:
    """What is held after one more look.

    Args:
        previous: After the look before.
        look: What was seen now.
        rule: When to hold.
        confirmation: The token that the operator gave, of whatever age.
    """
    dead = frozenset(stored.record.session_uuid for stored in snapshot.dead())
    confirmed = previous.confirmed & dead
    unconfirmed = dead - confirmed
    all_sessions = sum(1 for _ in snapshot.active()) - len(confirmed)
    state = MassExpiry()
    if rule.is_exceeded(len(unconfirmed), all_sessions):
        state = _held(previous, unconfirmed, all_sessions, snapshot.ended_seconds)
    elif previous.held and snapshot.begun_seconds - previous.exceeded_seconds < rule.grace_period_seconds:
        state = previous
    if state.token and confirmation == state.token:
        return MassExpiry(confirmed=confirmed | (state.held & dead))
    return replace(state, confirmed=confirmed)


def token_of(sessions: Iterable[SessionUuid]) -> str:
    """What an operator repeats to confirm that these may be ended; see guarantee 3."""
    return hashlib.sha256("\n".join(sorted(sessions)).encode()).hexdigest()[:_TOKEN_DIGITS]


def _held(
    previous: MassExpiry, sessions: frozenset[SessionUuid], all_sessions: int, exceeded_seconds: float
) -> MassExpiry:
    """Of fewer than were held before, the token stays: who is about to confirm them must not be too late."""
    if sessions <= previous.held:
        return MassExpiry(previous.held, previous.all_sessions, previous.token, exceeded_seconds)
    return MassExpiry(sessions, all_sessions, token_of(sessions), exceeded_seconds)
