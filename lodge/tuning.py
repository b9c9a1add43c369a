"""How this process runs gRPC and the garbage collector: what was measured to make ordinary traffic cheaper.

Why it exists: a gateway makes millions of short-lived objects and small gRPC calls beside a large set of modules that
never change; the defaults of both libraries are made for other programs. See docs/explanation/gateway-performance.md.
"""

import gc
import os

_EXPERIMENTS = "GRPC_EXPERIMENTS"
_POLL_IN_PLACE = "-event_engine_listener,-event_engine_client,-event_engine_callback_cq"


def start_grpc() -> None:
    """Starts gRPC with the poller that needs no threads of its own between the socket and the event loop.

    An operator's own ``GRPC_EXPERIMENTS`` wins. Child processes do not inherit ours: they may use another gRPC.
    """
    given = os.environ.get(_EXPERIMENTS)
    if given is None:
        os.environ[_EXPERIMENTS] = _POLL_IN_PLACE
    from grpc.aio import init_grpc_aio  # noqa: PLC0415 - gRPC reads the variable once, when it is first used

    init_grpc_aio()
    if given is None:
        del os.environ[_EXPERIMENTS]


def settle_memory() -> None:
    """Takes everything that is loaded by now out of the garbage collector's sight."""
    gc.collect()
    gc.freeze()
