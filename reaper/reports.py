"""Reports about the work of the reaper.

The metrics, the audit log, the Kubernetes Events and the status conditions are all based on the same reports. Each of
them has a handler, which is called with every report in the thread that did the work. A handler must return quickly.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reaper.decisions import Snapshot
from workspace.identifiers import ReplicaId, SessionUuid, TableUuid
from workspace.record_store import StoredRecord
from workspace.storage_paths import StoragePath


@dataclass(frozen=True, slots=True)
class SessionReaped:
    """Report that a session was ended.

    Attributes:
        stored: The record of the session when the reaper decided to end it.
        reason: The reason why the session was ended, in snake_case.
        locations: The session locations that were deleted.
    """

    stored: StoredRecord
    reason: str
    locations: tuple[StoragePath, ...]


@dataclass(frozen=True, slots=True)
class OrphanRemoved:
    """Report that a session location without a record was deleted."""

    session_uuid: SessionUuid
    location: StoragePath


@dataclass(frozen=True, slots=True)
class OrphanTableRemoved:
    """Report that a directory was deleted to which the record of its session did not refer."""

    stored: StoredRecord
    table_uuid: TableUuid


@dataclass(frozen=True, slots=True)
class HoldersForgotten:
    """Report that replicas that are gone were removed from a session's holders."""

    stored: StoredRecord
    replicas: frozenset[ReplicaId]


@dataclass(frozen=True, slots=True)
class WritesUndone:
    """Report that pending writes of replicas that are gone were removed from a record.

    Attributes:
        stored: The session record before the change.
        replicas: The replicas whose writes were removed.
        tables: The names of the temporary tables to which the replicas were writing.
    """

    stored: StoredRecord
    replicas: frozenset[ReplicaId]
    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaseRemoved:
    """Report that the lease of a replica that is gone was deleted."""

    replica: ReplicaId


@dataclass(frozen=True, slots=True)
class TrashPurged:
    """Report that an entry of the trash was permanently removed.

    Attributes:
        seconds: The duration of the removal.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class ActionFailed:
    """Report that an action failed. The reaper will try it again.

    Attributes:
        action: The name of the action, in snake_case.
        reason: The error message.
        stored: The record of the session, or None if the action does not concern a session with a record.
        about: The object of the action. It is the same for each attempt.
    """

    action: str
    reason: str
    stored: StoredRecord | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class HoldBegan:
    """Report that the reaper has stopped removing some or all objects.

    Attributes:
        kind: The kind of the hold, which is one of :data:`reaper.holds.KINDS`.
        reason: The reason for the hold, with instructions for the operator.
    """

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class HoldEnded:
    """Report that a hold has ended."""

    kind: str


@dataclass(frozen=True, slots=True)
class MassExpiryConfirmed:
    """Report that an operator has confirmed a mass expiry.

    Attributes:
        token: The token with which the operator has confirmed it.
        sessions: The number of sessions that may be ended.
    """

    token: str
    sessions: int


@dataclass(frozen=True, slots=True)
class PassResult:
    """Report that a pass has read the complete state and made its decisions.

    Attributes:
        snapshot: The state that the pass has read.
        held: The sessions whose end needs a confirmation.
        seconds: The duration of the pass.
        spared: The number of sessions that the reaper does not end yet, because sessions of the same gateway are being
            adopted.
    """

    snapshot: Snapshot
    held: frozenset[SessionUuid]
    seconds: float
    spared: int = 0


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
    | MassExpiryConfirmed
    | PassResult
)
ReportHandler = Callable[[Report], None]
