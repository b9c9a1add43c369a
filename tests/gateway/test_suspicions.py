"""Which requests are refused after a gateway was lost."""

from collections.abc import Sequence

import pytest

from gateway.blocking_work.current_work import NotedRequest, Work
from gateway.errors import GatewayError
from gateway.sessions.suspects import check_request
from gateway.sessions.suspicions import Loss, suspect
from tests.records import a_record
from workspace.identifiers import RecordName
from workspace.record_changes import add_suspect
from workspace.records import Refusal, SuspectedRequest

RECORD = RecordName(40 * "a")
CULPRIT, BYSTANDER = NotedRequest(RECORD, "1", "one"), NotedRequest(RECORD, "2", "two")
ANALYSIS = NotedRequest(RECORD, "3", "")


def suspects_after(*losses: tuple[Loss, Sequence[NotedRequest]]) -> Sequence[SuspectedRequest]:
    """Return the suspects after losses, in which the first request was in the event loop and the others in threads."""
    record = a_record()
    for number, (loss, (first, *others)) in enumerate(losses):
        for suspicion in suspect(Work(first, others), loss, str(number)):
            assert suspicion.record == RECORD
            record = add_suspect(record, suspicion.request)
            assert add_suspect(record, suspicion.request) is record, "each loss counts once"
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
    assert refused(found, NotedRequest(RECORD, "a reattachment", "one"), "ReattachExecute")
    assert not refused(found, BYSTANDER)
    assert not refused(found, NotedRequest(RECORD, "a release", "one"), "ReleaseExecute")


def test_request_without_an_operation_is_refused_by_its_content() -> None:
    found = suspects_after((Loss.STUCK, [ANALYSIS]))
    assert refused(found, ANALYSIS, "AnalyzePlan")
    assert not refused(found, NotedRequest(RECORD, "4", ""), "AnalyzePlan")
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


@pytest.mark.parametrize("loss", [Loss.OUT_OF_MEMORY, Loss.STARVED])
def test_request_with_which_memory_or_processors_ran_out_is_not_sent_again_by_itself(loss: Loss) -> None:
    """What a person sends again is refused only if that happens again."""
    once = suspects_after((loss, [CULPRIT]))
    assert refused(once, CULPRIT)
    assert not refused(once, CULPRIT, operation_id="a new statement")
    twice = suspects_after((loss, [CULPRIT]), (loss, [CULPRIT]))
    assert refused(twice, CULPRIT, operation_id="a new statement")


def test_gateway_that_was_killed_from_outside_accuses_no_request() -> None:
    assert not refused(suspects_after((Loss.KILLED, [CULPRIT])), CULPRIT)
    assert not refused(suspects_after((Loss.KILLED, [CULPRIT]), (Loss.KILLED, [CULPRIT, BYSTANDER])), CULPRIT)
    assert refused(suspects_after((Loss.KILLED, [CULPRIT]), (Loss.STUCK, [CULPRIT, BYSTANDER])), CULPRIT)


def test_request_in_a_thread_may_only_have_waited_while_the_event_loop_did_not_respond() -> None:
    (stuck,), (crashed,) = (suspect(Work(None, [CULPRIT]), loss, "1") for loss in (Loss.STUCK, Loss.CRASHED))
    assert (stuck.request.refusal, crashed.request.refusal) == (Refusal.OPERATION, Refusal.REQUEST)


def test_record_keeps_a_limited_number_of_suspects() -> None:
    requests = [NotedRequest(RECORD, str(number), str(number)) for number in range(100)]
    found = suspects_after((Loss.STUCK, requests))
    assert [each.operation_id for each in found] == [str(number) for number in range(84, 100)]
