"""Situations that are common in some seeds."""

import enum


class Situation(enum.Enum):
    """A situation that is common in some seeds, because evenly chosen parameters hardly ever cause it.

    Attributes:
        ANY: Evenly chosen parameters.
        STOPS: Gateways stop often, while statements run.
        QUOTA: The clients are one principal, and reach its quota of temporary tables.
        SILENCE: One gateway cannot read the session records, and so does not adopt the sessions of others.
        RETURNS: Gateways lose their leases and return, while others are about to adopt their sessions.
        WATCHED: Each gateway has a watcher, which replaces it if it ends or does not respond. Other faults are rare.
        READ_ONLY: The only fault is storage that can be read but not written, often for longer than all periods.
        HANGS: Gateways crash. Storage and API server often hang for longer than all periods, without errors.
    """

    ANY = enum.auto()
    STOPS = enum.auto()
    QUOTA = enum.auto()
    SILENCE = enum.auto()
    RETURNS = enum.auto()
    WATCHED = enum.auto()
    READ_ONLY = enum.auto()
    HANGS = enum.auto()


_SITUATIONS = (
    Situation.ANY,
    Situation.STOPS,
    Situation.ANY,
    Situation.QUOTA,
    Situation.READ_ONLY,
    Situation.SILENCE,
    Situation.WATCHED,
    Situation.RETURNS,
    Situation.ANY,
    Situation.STOPS,
    Situation.ANY,
    Situation.QUOTA,
    Situation.HANGS,
    Situation.SILENCE,
    Situation.WATCHED,
    Situation.RETURNS,
)


def situation_of(seed: int) -> Situation:
    """Return the situation of a seed."""
    return _SITUATIONS[seed % len(_SITUATIONS)]
