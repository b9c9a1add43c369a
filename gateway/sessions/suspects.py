"""Refuses requests that may be the reason why a gateway was lost. :mod:`gateway.sessions.suspicions` has the rules.

Source: [architecture "The watcher"].
"""

from collections.abc import Sequence

from gateway.errors import GatewayError
from workspace.records import Refusal, SuspectedRequest

_OF_OPERATIONS = frozenset({"ExecutePlan", "ReattachExecute"})


def check_request(suspects: Sequence[SuspectedRequest], method: str, operation_id: str, digest: str) -> None:
    """Check that a request is not refused.

    Args:
        suspects: The suspected requests of the session.
        method: The method of the request.
        operation_id: The operation that the request starts or refers to. Empty if there is none.
        digest: The digest of the request.

    Raises:
        GatewayError: If the request is refused.
    """
    is_operation = method in _OF_OPERATIONS and bool(operation_id)
    for each in suspects:
        is_same_operation = is_operation and each.operation_id == operation_id
        if each.refusal is Refusal.REQUEST and (is_same_operation or each.digest == digest):
            raise _refuse(
                each, "Change the statement, or run it in a new session if you are sure that it is not the cause."
            )
        if each.refusal is Refusal.OPERATION and is_same_operation:
            raise _refuse(each, "Other requests may be the cause, so you can run the statement again.")


def _refuse(suspect: SuspectedRequest, way_out: str) -> GatewayError:
    times = "" if suspect.losses == 1 else f" {suspect.losses} times"
    return GatewayError(
        "LODGE_SUSPECTED_REQUEST",
        "58000",
        f"A gateway did not respond or crashed{times} while it processed this request, so the request may be the "
        f"cause. It is not processed again. {way_out}",
    )
