"""Session records for tests."""

import uuid
from typing import Any

from workspace.records import Phase, SessionRecord


def a_record(number: int | None = None, **parts: Any) -> SessionRecord:
    """Return the record of an active session; keywords replace the defaults.

    Args:
        number: Names the session, also in another call. Without it, each record names a new session location.
        **parts: The fields of the record that differ from the defaults.
    """
    defaults: dict[str, Any] = {
        "session_uuid": str(uuid.uuid4() if number is None else uuid.UUID(int=number)),
        "principal": "ada",
        "client_session_id": "session-1" if number is None else str(number),
        "backend": "sc://backend:15002",
        "phase": Phase.ACTIVE,
        "created_at": "0",
    }
    return SessionRecord(**(defaults | parts))
