import pytest
import structlog

from lodge.event_limits import EventLimits


class Log:
    """A log that passes events through the limits, with a clock of its own."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.omitted: dict[tuple[str, str], int] = {}
        self._limits = EventLimits(self.omitted.__setitem__, lambda: self.seconds)

    def write(self, event: str, principal: str | None = None) -> bool:
        fields = {"event": event} if principal is None else {"event": event, "principal": principal}
        try:
            return self._limits(None, "info", fields) is fields
        except structlog.DropEvent:
            return False


def test_event_of_a_principal_is_limited_in_each_period() -> None:
    log = Log()
    for _ in range(2):
        assert sum(log.write("scan_failed", "ada") for _ in range(1000)) == 100
        log.seconds += 60
        assert log.write("session_started", "bob")
        assert log.omitted.pop(("scan_failed", "ada")) == 900
        assert log.omitted == {}


def test_others_are_not_affected() -> None:
    log = Log()
    for _ in range(1000):
        log.write("scan_failed", "ada")
    assert log.write("scan_failed", "bob")
    assert log.write("session_started", "ada")


def test_events_without_a_principal_are_not_limited() -> None:
    log = Log()
    assert all(log.write("lease_renewal_failed") for _ in range(1000))


def test_many_principals_share_one_limit() -> None:
    log = Log()
    assert sum(log.write("scan_failed", f"principal {number}") for number in range(10_000)) == pytest.approx(
        1100, abs=1
    )
