"""What the reaper tells of its work beside its log, as values.

Why it exists: the same things are counted as metrics and recorded as Kubernetes Events, and neither is any business of
who does the work. Whoever wants to know gets every report, in the thread that does the work, and must be quick.
"""

from collections.abc import Callable
from dataclasses import dataclass

from workspace.records import ReplicaId, SessionUuid, StoredRecord, TableUuid
from workspace.storage_paths import StoragePath


@dataclass(frozen=True, slots=True)
class SessionReaped:
    """A session was ended.

    Attributes:
        stored: Its record, as it was when that was decided.
        reason: Why.
        locations: Where its locations were that were deleted with it.
    """

    stored: StoredRecord
    reason: str
    locations: tuple[StoragePath, ...]


@dataclass(frozen=True, slots=True)
class OrphanRemoved:
    """A location was deleted that no record names."""

    session_uuid: SessionUuid
    location: StoragePath


@dataclass(frozen=True, slots=True)
class OrphanTableRemoved:
    """A directory was deleted that the record of its session does not name."""

    stored: StoredRecord
    table_uuid: TableUuid


@dataclass(frozen=True, slots=True)
class HoldersForgotten:
    """Replicas that are gone were taken out of a session that goes on."""

    stored: StoredRecord
    replicas: frozenset[ReplicaId]


@dataclass(frozen=True, slots=True)
class WritesUndone:
    """What replicas were writing that are gone was taken out of the record of a session that goes on.

    Attributes:
        stored: The record before.
        replicas: Whose writes.
        tables: The names of the temporary tables.
    """

    stored: StoredRecord
    replicas: frozenset[ReplicaId]
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaseRemoved:
    replica: ReplicaId


@dataclass(frozen=True, slots=True)
class TrashPurged:
    """Something that was set aside is gone for good.

    Attributes:
        seconds: How long that took.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """Something could not be done, and will be tried again.

    Attributes:
        action: What, in snake_case.
        reason: Why not.
        stored: The record of the session that it was for, if it has one.
        about: What it was done to; the same at each attempt.
    """

    action: str
    reason: str
    stored: StoredRecord | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class HoldBegan:
    """The reaper does nothing, or not all, from now on.

    Attributes:
        kind: What it waits for, in snake_case.
        reason: Why, and what to do.
    """

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class HoldEnded:
    """What held it back is over."""

    kind: str


@dataclass(frozen=True, slots=True)
class PassCompleted:
    """It has looked at everything, and decided.

    Attributes:
        seconds: How long that took.
    """

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
    | PassCompleted
)
ReportHandler = Callable[[Report], None]
