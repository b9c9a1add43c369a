"""What the reaper tells of a session in its ``status.conditions``: no I/O.

- ``Owned``: whether a gateway holds the session. ``Unknown`` while its pod or node is in doubt. ``False`` says why it
  goes, or what it waits for.
- ``BackendAvailable``: whether the session's Spark Connect server is there; left out where that cannot be known.
- ``LocationRemoved``: ``False`` once removing the session's location has failed, with the error and the number of
  attempts. There is no ``True``: the record goes with the location. A session that goes on after all has none again.
- ``LeftoversRemoved``: the same of directories that the session's tables do not name any more; ``True`` after a failure
  that is over.

A message says nothing that changes from one look to the next, so that conditions are written when something happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reaper.decisions import Snapshot
from reaper.kubernetes.backends import Availability
from workspace.records import Phase, SessionUuid, StoredRecord

_LONGEST_MESSAGE_CHARACTERS = 1024
_OF_ACTIONS = {"end_session": "LocationRemoved", "remove_orphan_table": "LeftoversRemoved"}


@dataclass(frozen=True, slots=True)
class Condition:
    """One of ``status.conditions``, without its times.

    Attributes:
        type: Of what.
        status: ``True``, ``False`` or ``Unknown``.
        reason: In one word.
        message: For people.
    """

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class FailedRemoval:
    """What of a session cannot be removed.

    Attributes:
        action: As :class:`reaper.reports.ActionFailed` names it.
        reason: The last error.
        attempts: How many there were.
        seconds: When the last one was, on a monotonic clock.
    """

    action: str
    reason: str
    attempts: int
    seconds: float = 0.0


def owned(stored: StoredRecord, snapshot: Snapshot, *, is_held_for_confirmation: bool) -> Condition:
    if stored.record.phase is Phase.ENDING:
        return Condition("Owned", "False", "Ending", "The session is being ended.")
    if stored.is_deletion_requested:
        return Condition("Owned", "False", "DeletionRequested", "The session is ended because somebody asked for it.")
    return _owned_while_it_goes_on(stored, snapshot, is_held_for_confirmation)


def backend_available(availability: Availability) -> Condition:
    status = "True" if availability.is_available else "False"
    return Condition("BackendAvailable", status, availability.reason, availability.message)


def removal_failed(failed: FailedRemoval) -> Condition | None:
    """None if it is no removal that failed."""
    kind = _OF_ACTIONS.get(failed.action)
    if kind is None:
        return None
    message = f"Attempt {failed.attempts}: {failed.reason}"[:_LONGEST_MESSAGE_CHARACTERS]
    return Condition(kind, "False", "RemovalFailed", message)


def conditions_of(
    stored: StoredRecord,
    snapshot: Snapshot,
    *,
    held: frozenset[SessionUuid],
    availability: Availability | None,
    failed: FailedRemoval | None,
    before: Mapping[str, Condition],
) -> Mapping[str, Condition]:
    """All conditions of a session, by type.

    Args:
        stored: Its record.
        look: What the reaper saw last.
        held: The sessions whose end waits for a confirmation.
        availability: What is known of its backend.
        failed: What could not be removed of it lately.
        before: Its conditions up to now; those stay of which nothing is known.
    """
    if stored.record.phase is Phase.ENDING and failed is None:
        return before  # it will be gone before anybody could read that
    now = dict(before)
    is_waiting = stored.record.session_uuid in held
    now["Owned"] = owned(stored, snapshot, is_held_for_confirmation=is_waiting)
    if availability is not None:
        now["BackendAvailable"] = backend_available(availability)
    failure = None if failed is None else removal_failed(failed)
    if failure is not None:
        now[failure.type] = failure
        return now
    if stored.record.phase is Phase.ACTIVE:
        now.pop("LocationRemoved", None)
    if now.get("LeftoversRemoved", now["Owned"]).reason == "RemovalFailed":
        now["LeftoversRemoved"] = Condition("LeftoversRemoved", "True", "Removed", "What was left over is removed.")
    return now


def _owned_while_it_goes_on(stored: StoredRecord, snapshot: Snapshot, is_held_for_confirmation: bool) -> Condition:
    if snapshot.is_surely_held(stored):
        return Condition("Owned", "True", "Held", "A gateway holds the session.")
    if snapshot.is_held(stored):
        message = "The pod or the node of the session's gateway is in doubt; its lease has not lapsed yet."
        return Condition("Owned", "Unknown", "HolderInDoubt", message)
    if is_held_for_confirmation:
        message = "Too many sessions look dead at once; their end waits for a confirmation (see the reaper's Events)."
        return Condition("Owned", "False", "MassExpiry", message)
    if not stored.record.holders:
        message = "No gateway holds the session; it ends unless one adopts it within the grace period."
        return Condition("Owned", "False", "NoHolder", message)
    message = "The session's gateway is gone; the session ends unless another adopts it within the grace period."
    return Condition("Owned", "False", "HolderGone", message)
