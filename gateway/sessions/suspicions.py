"""Requests that may be the reason why a gateway was lost, and what is refused because of them.

A client whose gateway is lost sends its request again, or reattaches to its statement. If the request itself is the
cause, it would end one gateway after the other. The watcher knows on which requests a gateway worked when it was lost
(:mod:`gateway.blocking_work.current_work`). The next gateway writes them to the session records before it accepts
connections. :mod:`gateway.sessions.suspects` then refuses them.

======================================  =============================================================================
The gateway                             What is refused
======================================  =============================================================================
did not respond while only its event    This request, in each form: also if the client sends it as a new statement.
loop worked on a request
crashed while it worked on one request  The same
did not respond or crashed otherwise    Their operations, which clients send again by themselves. A user can run the
                                        statements again.
was killed while memory ran out, or     The same
did not get a processor for too long
was killed from outside otherwise       Nothing. Most of these requests are innocent.
======================================  =============================================================================

A request with which a second gateway is lost is refused in each form, unless both were killed from outside. Another
session may always try.

Not guaranteed: that only one gateway is lost. A client that connects to another gateway before the new one has written
the session record can lose this gateway too.

Source: [architecture "The watcher"].
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.blocking_work.current_work import Work
from workspace.identifiers import RecordName
from workspace.records import Refusal, SuspectedRequest


class Loss(enum.Enum):
    """How a gateway was lost.

    Attributes:
        STUCK: It did not respond.
        CRASHED: It ended because of a fault in itself, such as a segmentation fault.
        STARVED: It did not respond, but mostly because it did not get a processor.
        OUT_OF_MEMORY: The kernel ended processes because memory ran out, so probably also this one.
        KILLED: Another process ended or stopped it.
    """

    STUCK = enum.auto()
    STARVED = enum.auto()
    OUT_OF_MEMORY = enum.auto()
    CRASHED = enum.auto()
    KILLED = enum.auto()


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A suspected request to write to the record of its session.

    Attributes:
        record: The name of the record.
        request: The request.
    """

    record: RecordName
    request: SuspectedRequest


def suspect(work: Work, loss: Loss, loss_id: str) -> Sequence[Suspicion]:
    """Return the suspicions against the requests on which a lost gateway worked.

    Args:
        work: What it did last.
        loss: How it was lost.
        loss_id: Names the loss.
    """
    requests = [*([] if work.in_loop is None else [work.in_loop]), *work.in_threads]
    is_certain = loss in (Loss.STUCK, Loss.CRASHED)  # memory and processors run out because of others, too
    is_sole = is_certain and len(requests) == 1 and (work.in_loop is not None or loss is Loss.CRASHED)
    refusal = Refusal.REQUEST if is_sole else Refusal.OPERATION
    if loss is Loss.KILLED:
        refusal = Refusal.NOTHING
    return [
        Suspicion(each.record, SuspectedRequest(each.operation_id, each.digest, 1, refusal, loss_id))
        for each in requests
    ]
