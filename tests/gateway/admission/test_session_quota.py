"""The quota of sessions."""

from collections.abc import Callable

import grpc
import pytest

from gateway.admission.limits import AdmissionLimits, LimitKind, LimitReports
from gateway.admission.session_quota import SessionQuota
from workspace.identifiers import Principal

ADA, BOB = Principal("ada"), Principal("bob")
Report = Callable[[AdmissionLimits], LimitReports]


def quota(report: Report, **limits: int) -> SessionQuota:
    all_limits = AdmissionLimits(**limits)  # type: ignore[arg-type] # only integers
    return SessionQuota(all_limits, report(all_limits))


def test_principal_over_its_limit_may_not_start_a_session(report: Report, reached: list[LimitKind]) -> None:
    sessions = quota(report, max_principal_sessions=2)
    sessions.add(ADA)
    with sessions.reserve(ADA) as may_start:
        assert may_start
    sessions.add(ADA)
    with sessions.reserve(ADA) as may_start:
        assert not may_start
    with sessions.reserve(BOB) as may_start:
        assert may_start
    refused = sessions.refuse(ADA)
    assert "max_principal_sessions" in refused.text
    assert refused.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.retry_after_seconds
    assert reached == [LimitKind.PRINCIPAL_SESSIONS]


def test_total_limit_holds_for_made_up_principals(report: Report) -> None:
    sessions = quota(report, max_sessions=3)
    for number in range(3):
        sessions.add(Principal(f"principal {number}"))
    with sessions.reserve(BOB) as may_start:
        assert not may_start


def test_sessions_that_open_at_the_same_time_count(report: Report) -> None:
    sessions = quota(report, max_principal_sessions=1)
    with sessions.reserve(ADA) as first, sessions.reserve(ADA) as second:
        assert first
        assert not second
    with sessions.reserve(ADA) as third:
        assert third


def test_ended_session_makes_room(report: Report) -> None:
    sessions = quota(report, max_principal_sessions=1)
    sessions.add(ADA)
    sessions.remove(ADA)
    with sessions.reserve(ADA) as may_start:
        assert may_start
    assert not sessions._by_principal


@pytest.mark.parametrize("setting", ["new_sessions_per_minute", "principal_new_sessions_per_minute"])
def test_too_many_new_sessions_in_a_minute_are_refused(report: Report, setting: str) -> None:
    sessions = quota(report, **{setting: 2})
    for _ in range(2):
        with sessions.reserve(ADA) as may_start:
            assert may_start
        sessions.count_start(ADA)
    with sessions.reserve(ADA) as may_start:
        assert not may_start
    assert setting in sessions.refuse(ADA).text
