"""Protection against ending very many sessions at once: no I/O, no clock.

A wrong clock, a namespace restored from a backup, or a network policy that keeps gateways from renewing their leases
makes every session look dead. Each rule of :mod:`reaper.decisions` would then be right to end it. A person must decide
first.

Guarantees:

1. No session is ended while, in one snapshot, more than the configured share of the active sessions and at least the
   configured number look dead. Ends resume after a grace period in which each snapshot shows fewer, or when the
   operator confirms them.
2. A confirmation contains a token that stands for a set of sessions: those that looked dead when the reaper warned.
   Sessions that look dead later need another token. A session that looks alive again loses its confirmation.
3. Equal sets of sessions have equal tokens, so one reaper may ask for a confirmation and the next one may act on it.
4. A session whose deletion was requested neither counts nor waits.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reaper.decisions import Snapshot
from workspace.identifiers import SessionUuid

_TOKEN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class MassExpiryRule:
    """The condition for a hold.

    Attributes:
        share: The share of the active sessions, between 0 and 1, that may look dead at once; 1 never holds.
        minimum_sessions: The smallest number of dead sessions that holds.
        grace_period_seconds: How long fewer sessions must look dead before ends resume.
    """

    share: float = 1.0
    minimum_sessions: int = 1
    grace_period_seconds: float = 0.0

    def is_exceeded(self, dead: int, all_sessions: int) -> bool:
        """Return whether so many dead sessions among all sessions are a mass expiry."""
        return dead >= self.minimum_sessions and dead > self.share * all_sessions


NEVER = MassExpiryRule()


@dataclass(frozen=True, slots=True)
class MassExpiry:
    """The sessions on hold, and the confirmed ones.

    Attributes:
        held: The sessions that must not be ended.
        all_sessions: The number of active sessions when the hold began.
        token: The token that confirms the end of the held sessions; empty if there are none.
        exceeded_seconds: The end of the last snapshot in which too many sessions looked dead.
        confirmed: The sessions that may be ended although they are too many.
    """

    held: frozenset[SessionUuid] = frozenset()
    all_sessions: int = 0
    token: str = ""
    exceeded_seconds: float = float("-inf")
    confirmed: frozenset[SessionUuid] = frozenset()


def evaluate_mass_expiry(
    previous: MassExpiry, snapshot: Snapshot, rule: MassExpiryRule, confirmation: str | None
) -> MassExpiry:
    """Return the state after one more snapshot.

    Args:
        previous: The state after the previous snapshot.
        snapshot: The last snapshot.
        rule: The condition for a hold.
        confirmation: The token that the operator gave last.
    """
    dead = frozenset(stored.record.session_uuid for stored in snapshot.dead())
    confirmed = previous.confirmed & dead
    unconfirmed = dead - confirmed
    all_sessions = sum(1 for _ in snapshot.active()) - len(confirmed)
    state = MassExpiry()
    if rule.is_exceeded(len(unconfirmed), all_sessions):
        state = _hold(previous, unconfirmed, all_sessions, snapshot.ended_seconds)
    elif previous.held and snapshot.begun_seconds - previous.exceeded_seconds < rule.grace_period_seconds:
        state = previous
    if state.token and confirmation == state.token:
        return MassExpiry(confirmed=confirmed | (state.held & dead))
    return replace(state, confirmed=confirmed)


def token_of(sessions: Iterable[SessionUuid]) -> str:
    """Return the token that confirms the end of these sessions."""
    return hashlib.sha256("\n".join(sorted(sessions)).encode()).hexdigest()[:_TOKEN_DIGITS]


def _hold(
    previous: MassExpiry, sessions: frozenset[SessionUuid], all_sessions: int, exceeded_seconds: float
) -> MassExpiry:
    """Return the hold; a subset of the held sessions keeps their token, which the operator may be about to give."""
    if sessions <= previous.held:
        return MassExpiry(previous.held, previous.all_sessions, previous.token, exceeded_seconds)
    return MassExpiry(sessions, all_sessions, token_of(sessions), exceeded_seconds)
