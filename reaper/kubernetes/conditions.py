"""The status conditions of a session, without I/O.

====================
==================================================================================================
Type                  Meaning
====================
==================================================================================================
``Owned``             Whether a gateway serves the session. ``Unknown`` while the gateway's pod or node is doubted. If
                      ``False``, the reason explains why the session ends, or what its end is waiting for.
``BackendAvailable``  Whether the session's Spark Connect server is available. Absent if this is unknown.
``LocationRemoved``   ``False`` if removing the session location failed, with the error and the number of attempts. The
                      condition is never ``True``, because the record is deleted together with the location.
``LeftoversRemoved``  ``False`` if removing directories that do not belong to the session's tables failed. ``True``
after
                      a later removal succeeded.
====================
==================================================================================================

Messages do not contain anything that changes from pass to pass. Therefore, a status is written only after a change.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from reaper.decisions import Snapshot
from reaper.kubernetes.backends import Availability
from workspace.identifiers import SessionUuid
from workspace.record_store import StoredRecord
from workspace.records import Phase

_LONGEST_MESSAGE_CHARACTERS = 1024
_OF_ACTIONS = {"end_session": "LocationRemoved", "remove_orphan_table": "LeftoversRemoved"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A status condition without its times.

    Attributes:
        type: The type of the condition.
        status: ``True``, ``False`` or ``Unknown``.
        reason: The reason in one word.
        message: The reason in a sentence.
    """

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class FailedRemoval:
    """Failed attempts to remove files of a session.

    Attributes:
        action: The name of the action; see :class:`reaper.reports.ActionFailed`.
        reason: The last error message.
        attempts: The number of failed attempts.
        seconds: The monotonic time of the last attempt.
    """

    action: str
    reason: str
    attempts: int
    seconds: float = 0.0


def owned_condition(stored: StoredRecord, snapshot: Snapshot, *, is_held_for_confirmation: bool) -> Condition:
    """Return the condition ``Owned``."""
    if stored.record.phase is Phase.ENDING:
        return Condition("Owned", "False", "Ending", "The session is being ended.")
    if stored.is_deletion_requested:
        return Condition(
            "Owned", "False", "DeletionRequested", "The session is being ended because its deletion was requested."
        )
    return _owned_while_active(stored, snapshot, is_held_for_confirmation)


def backend_condition(availability: Availability) -> Condition:
    """Return the condition ``BackendAvailable``."""
    status = "True" if availability.is_available else "False"
    return Condition("BackendAvailable", status, availability.reason, availability.message)


def removal_condition(failed: FailedRemoval) -> Condition | None:
    """Return the condition for a failed removal, or None if another action failed."""
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
    """Return all conditions of a session, by type.

    Args:
        stored: The record of the session.
        snapshot: The last snapshot.
        held: The sessions whose end needs a confirmation.
        availability: The availability of the session's backend, or None if it is unknown.
        failed: The removal that failed recently, or None.
        before: The previous conditions. A condition that is currently unknown keeps its previous value.
    """
    if stored.record.phase is Phase.ENDING and failed is None:
        return before  # the session is deleted before anyone could read a change
    now = dict(before)
    is_waiting = stored.record.session_uuid in held
    now["Owned"] = owned_condition(stored, snapshot, is_held_for_confirmation=is_waiting)
    if availability is not None:
        now["BackendAvailable"] = backend_condition(availability)
    failure = None if failed is None else removal_condition(failed)
    if failure is not None:
        now[failure.type] = failure
        return now
    if stored.record.phase is Phase.ACTIVE:
        now.pop("LocationRemoved", None)
    if now.get("LeftoversRemoved", now["Owned"]).reason == "RemovalFailed":
        now["LeftoversRemoved"] = Condition("LeftoversRemoved", "True", "Removed", "The leftovers have been removed.")
    return now


def _owned_while_active(stored: StoredRecord, snapshot: Snapshot, is_held_for_confirmation: bool) -> Condition:
    if snapshot.has_certain_holder(stored):
        return Condition("Owned", "True", "Held", "A gateway serves the session.")
    if snapshot.has_live_holder(stored):
        message = "The pod or node of the session's gateway may be lost, but the gateway's lease has not expired yet."
        return Condition("Owned", "Unknown", "HolderInDoubt", message)
    if is_held_for_confirmation:
        message = "Too many sessions appear to be dead. Their end needs a confirmation; see the reaper's Events."
        return Condition("Owned", "False", "MassExpiry", message)
    if not stored.record.holders:
        message = "No gateway serves the session. It ends unless a gateway adopts it within the grace period."
        return Condition("Owned", "False", "NoHolder", message)
    message = "The session's gateway is lost. The session ends unless another one adopts it within the grace period."
    return Condition("Owned", "False", "HolderGone", message)
