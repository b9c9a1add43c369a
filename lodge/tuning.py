"""Process-wide settings of gRPC and the garbage collector for ``lodge serve``.

A gateway creates millions of short-lived objects and small gRPC calls beside a large set of modules that never change.
The defaults of gRPC and of the garbage collector suit other programs. ``docs/explanation/gateway-performance.md`` has
the measurements.
"""

import gc
import os

_GRPC_VARIABLES = {
    # The poller that needs no thread of its own between the socket and the event loop.
    "GRPC_EXPERIMENTS": "-event_engine_listener,-event_engine_client,-event_engine_callback_cq",
    # A child of lodge executes another program at once and never uses gRPC before. With fork support, gRPC tries to
    # stop its threads before each fork, cannot, and logs that at level INFO, below any log level of ours.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}


def start_grpc() -> None:
    """Start gRPC with the settings of a gateway.

    A variable that the operator has set keeps its value. Child processes do not inherit ours: they may use another
    version of gRPC.
    """
    ours = {name: value for name, value in _GRPC_VARIABLES.items() if name not in os.environ}
    os.environ.update(ours)
    from grpc.aio import init_grpc_aio  # noqa: PLC0415 - gRPC reads the variables once, when it is first used

    init_grpc_aio()
    for name in ours:
        del os.environ[name]


def freeze_loaded_objects() -> None:
    """Exclude all objects that exist now from garbage collection."""
    gc.collect()
    gc.freeze()
