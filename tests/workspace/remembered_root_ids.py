"""Ids of roots that are recorded elsewhere than on the roots' storage, in memory."""

from dataclasses import dataclass, field

from workspace.records import RecordsUnavailableError


@dataclass
class RememberedRootIds:
    """Attributes:
    ids: By root.
    is_reachable: Whether anything can be read or recorded.
    """

    ids: dict[str, str] = field(default_factory=dict)
    is_reachable: bool = True

    def expected(self, root: str) -> str | None:
        self._require()
        return self.ids.get(root)

    def record(self, root: str, root_id: str) -> str:
        self._require()
        return self.ids.setdefault(root, root_id)

    def _require(self) -> None:
        if not self.is_reachable:
            raise RecordsUnavailableError(None, "the API server is down")
