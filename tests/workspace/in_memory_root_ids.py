"""An in-memory registry of root ids."""

import secrets
from dataclasses import dataclass, field

from workspace.record_store import RecordsUnavailableError


@dataclass
class InMemoryRootIds:
    """An implementation of :class:`workspace.root_identities.RootIds`.

    Attributes:
        ids: The ids by root.
        is_reachable: Whether the registry answers.
        records: The id of the session records.
    """

    ids: dict[str, str] = field(default_factory=dict)
    is_reachable: bool = True
    records: str = field(default_factory=lambda: f"remembered/{secrets.token_hex(16)}")

    def records_id(self) -> str:
        self._require()
        return self.records

    def expected(self, root: str) -> str | None:
        self._require()
        return self.ids.get(root)

    def record(self, root: str, root_id: str) -> str:
        self._require()
        return self.ids.setdefault(root, root_id)

    def _require(self) -> None:
        if not self.is_reachable:
            raise RecordsUnavailableError(None, "the API server is down")
