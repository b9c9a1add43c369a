"""The share of one principal in places that all principals use, such as threads."""

from contextvars import ContextVar

calling_principal: ContextVar[str | None] = ContextVar("calling_principal", default=None)
"""The principal for which the current task or thread works. None for work of the gateway itself, which has no share."""


def share_of_principal(places: int) -> int:
    """Return how many of a number of places one principal can occupy at the same time."""
    return max(1, places * 3 // 4)
