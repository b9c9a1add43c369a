"""Reports of the reaper's work, as values.

Metrics, Kubernetes Events and status conditions all show the same work. Each is a handler that gets every report, in
the thread that did the work. A handler must be quick.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reaper.decisions import Snapshot
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.record_store import StoredRecord
from workspace.storage_paths import StoragePath


@dataclass(frozen=True, slots=True)
class SessionReaped:
    """A session was ended.

    Attributes:
        stored: The record of the session at the time of the decision.
        reason: Why the session was ended, in snake_case.
        locations: The session locations that were deleted.
    """

    stored: StoredRecord
    reason: str
    locations: tuple[StoragePath, ...]


@dataclass(frozen=True, slots=True)
class OrphanRemoved:
    """A session location that no record names was deleted."""

    session_uuid: SessionUuid
    location: StoragePath


@dataclass(frozen=True, slots=True)
class OrphanTableRemoved:
    """A directory that the record of its session does not name was deleted."""

    stored: StoredRecord
    table_uuid: TableUuid


@dataclass(frozen=True, slots=True)
class HoldersForgotten:
    """Replicas that are gone were removed from the holders of an active session."""

    stored: StoredRecord
    replicas: frozenset[ReplicaId]


@dataclass(frozen=True, slots=True)
class WritesUndone:
    """Pending writes of replicas that are gone were removed from the record of an active session.

    Attributes:
        stored: The record before the change.
        replicas: The replicas that were writing.
        tables: The names of the temporary tables that they were writing.
    """

    stored: StoredRecord
    replicas: frozenset[ReplicaId]
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaseRemoved:
    """The lease of a replica that is gone was deleted."""

    replica: ReplicaId


@dataclass(frozen=True, slots=True)
class TrashPurged:
    """The files of a trash entry were removed.

    Attributes:
        seconds: The duration of the removal.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """An action failed; the reaper will try it again.

    Attributes:
        action: The name of the action, in snake_case.
        reason: The error message.
        stored: The record of the session that the action is for, if there is one.
        about: The object of the action; equal for each attempt.
    """

    action: str
    reason: str
    stored: StoredRecord | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class HoldBegan:
    """The reaper removes nothing, or not everything, from now on.

    Attributes:
        kind: The kind of hold, one of :data:`reaper.holds.KINDS`.
        reason: Why, and what to do about it.
    """

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class HoldEnded:
    """A hold has ended."""

    kind: str


@dataclass(frozen=True, slots=True)
class PassResult:
    """A pass has read everything, and has decided.

    Attributes:
        snapshot: The state that it read.
        held: The sessions whose end waits for a confirmation.
        seconds: The duration of the pass.
    """

    snapshot: Snapshot
    held: frozenset[SessionUuid]
    seconds: float


Report = (
    SessionReaped
    | OrphanRemoved
    | OrphanTableRemoved
    | HoldersForgotten
    | WritesUndone
    | LeaseRemoved
    | TrashPurged
    | ActionFailed
    | HoldBegan
    | HoldEnded
    | PassResult
)
ReportHandler = Callable[[Report], None]
