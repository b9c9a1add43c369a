"""Which requests are refused after a gateway was lost."""

from collections.abc import Sequence

import pytest

from gateway.current_work import NotedRequest
from gateway.errors import GatewayError
from gateway.sessions.suspects import check_request
from gateway.suspicions import Loss, suspect
from tests.records import a_record
from workspace.identifiers import RecordName
from workspace.record_changes import add_suspect
from workspace.records import SuspectedRequest

RECORD = RecordName(40 * "a")
CULPRIT, BYSTANDER = NotedRequest(RECORD, "one", "1"), NotedRequest(RECORD, "two", "2")
ANALYSIS = NotedRequest(RECORD, "", "3")


def suspects_after(*losses: tuple[Loss, Sequence[NotedRequest]]) -> Sequence[SuspectedRequest]:
    record = a_record()
    for loss, requests in losses:
        for suspicion in suspect(requests, loss):
            assert suspicion.record == RECORD
            record = add_suspect(record, suspicion.request)
    return record.suspects


def refused(
    suspects: Sequence[SuspectedRequest], request: NotedRequest, method: str = "ExecutePlan", operation_id: str = ""
) -> str:
    """Return the error with which a request is refused. Empty if it is not."""
    try:
        check_request(suspects, method, operation_id or request.operation_id, request.digest)
    except GatewayError as error:
        assert error.condition == "LODGE_SUSPECTED_REQUEST"
        return str(error)
    return ""


@pytest.mark.parametrize("loss", [Loss.STUCK, Loss.CRASHED])
def test_only_request_of_a_lost_gateway_is_refused_in_each_form(loss: Loss) -> None:
    found = suspects_after((loss, [CULPRIT]))
    assert refused(found, CULPRIT)
    assert "in a new session" in refused(found, CULPRIT, operation_id="a new statement")
    assert refused(found, NotedRequest(RECORD, "one", "a reattachment"), "ReattachExecute")
    assert not refused(found, BYSTANDER)
    assert not refused(found, NotedRequest(RECORD, "one", "a release"), "ReleaseExecute")


def test_request_without_an_operation_is_refused_by_its_content() -> None:
    found = suspects_after((Loss.STUCK, [ANALYSIS]))
    assert refused(found, ANALYSIS, "AnalyzePlan")
    assert not refused(found, NotedRequest(RECORD, "", "4"), "AnalyzePlan")
    assert not refused(found, BYSTANDER)


def test_one_of_several_requests_can_be_run_again_by_a_person() -> None:
    found = suspects_after((Loss.STUCK, [CULPRIT, BYSTANDER]))
    for each in (CULPRIT, BYSTANDER):
        assert "you can run the statement again" in refused(found, each)
        assert not refused(found, each, operation_id="a new statement")


def test_request_that_ends_a_second_gateway_is_refused_in_each_form() -> None:
    again = CULPRIT._replace(operation_id="again")
    found = suspects_after((Loss.STUCK, [CULPRIT, BYSTANDER]), (Loss.STUCK, [again, ANALYSIS]))
    assert "2 times" in refused(found, CULPRIT, operation_id="a third statement")
    assert not refused(found, BYSTANDER, operation_id="a new statement")


def test_gateway_that_was_killed_from_outside_accuses_no_request_at_first() -> None:
    assert not refused(suspects_after((Loss.KILLED, [CULPRIT])), CULPRIT)
    assert refused(suspects_after((Loss.KILLED, [CULPRIT]), (Loss.KILLED, [CULPRIT, BYSTANDER])), CULPRIT)


def test_record_keeps_a_limited_number_of_suspects() -> None:
    requests = [NotedRequest(RECORD, str(number), str(number)) for number in range(100)]
    found = suspects_after((Loss.STUCK, requests))
    assert [each.operation_id for each in found] == [str(number) for number in range(84, 100)]
