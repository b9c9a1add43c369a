"""Protection against ending many sessions by mistake, without I/O or clock.

A wrong clock, a namespace that was restored from a backup, or a network policy that prevents gateways from renewing
their leases can make all sessions appear to be dead. According to the rules of :mod:`reaper.decisions`, all of them
would be ended. In this situation, a person must decide first.

Guarantees:

1. No session is ended while a single snapshot shows both more dead sessions than the configured share of all active
   sessions and at least the configured number of dead sessions. The reaper ends sessions again after a grace period in
   which each snapshot shows fewer dead sessions, or after the operator confirms the mass expiry.
2. A confirmation contains a token for a set of sessions, which are the sessions that appeared to be dead when the
   reaper issued the warning. Sessions that appear to be dead later need another token. If a session appears to be
   alive again, it is no longer confirmed.
3. Equal sets of sessions have equal tokens. Therefore, one reaper may request a confirmation, and the next leader may
   act on it.
4. Sessions whose deletion was requested are not counted and are not held back.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reaper.decisions import Snapshot
from workspace.identifiers import SessionUuid

_TOKEN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class MassExpiryRule:
    """The condition for a hold because of a mass expiry.

    Attributes:
        share: The share of the active sessions, between 0 and 1, that may appear to be dead at the same time. With 1,
            there is never a hold.
        minimum_sessions: The minimum number of dead sessions for a hold.
        grace_period_seconds: The time for which fewer sessions must appear to be dead before the hold ends.
    """

    share: float = 1.0
    minimum_sessions: int = 1
    grace_period_seconds: float = 0.0

    def is_exceeded(self, dead: int, all_sessions: int) -> bool:
        """Return whether the number of dead sessions is a mass expiry."""
        return dead >= self.minimum_sessions and dead > self.share * all_sessions


NEVER = MassExpiryRule()


@dataclass(frozen=True, slots=True)
class MassExpiry:
    """The sessions that are held back, and the sessions whose end is confirmed.

    Attributes:
        held: The sessions that must not be ended.
        all_sessions: The number of active sessions when the hold began.
        token: The token that confirms the end of the held sessions. Empty if there are none.
        exceeded_seconds: The monotonic time at the end of the last snapshot with too many dead sessions.
        confirmed: The sessions that may be ended because the operator has confirmed their end.
    """

    held: frozenset[SessionUuid] = frozenset()
    all_sessions: int = 0
    token: str = ""
    exceeded_seconds: float = float("-inf")
    confirmed: frozenset[SessionUuid] = frozenset()


def evaluate_mass_expiry(
    previous: MassExpiry, snapshot: Snapshot, rule: MassExpiryRule, confirmation: str | None
) -> MassExpiry:
    """Return the state after a snapshot.

    Args:
        previous: The state after the previous snapshot.
        snapshot: The last snapshot.
        rule: The condition for a hold.
        confirmation: The token of the operator's last confirmation.
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
    """Return the token that confirms the end of the given sessions."""
    return hashlib.sha256("\n".join(sorted(sessions)).encode()).hexdigest()[:_TOKEN_DIGITS]


def _hold(
    previous: MassExpiry, sessions: frozenset[SessionUuid], all_sessions: int, exceeded_seconds: float
) -> MassExpiry:
    """Return the state with a hold for the given sessions.

    If the sessions are a subset of the sessions that are already held, the token does not change, because the operator
    may be about to use it.
    """
    if sessions <= previous.held:
        return MassExpiry(previous.held, previous.all_sessions, previous.token, exceeded_seconds)
    return MassExpiry(sessions, all_sessions, token_of(sessions), exceeded_seconds)
