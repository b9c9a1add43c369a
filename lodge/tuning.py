"""Process-wide settings of gRPC, imports, threads, the garbage collector and open files for ``lodge serve``.

A gateway creates millions of short-lived objects and sends many small gRPC messages, while its large set of imported
modules never changes. The default settings of gRPC and of the garbage collector are not suited for this load. For
measurements, see ``docs/explanation/gateway-performance.md``.
"""

import gc
import os
import resource
import sys
from importlib.abc import MetaPathFinder

_GRPC_VARIABLES = {
    # Use the poller that does not need an additional thread between the socket and the event loop.
    "GRPC_EXPERIMENTS": "-event_engine_listener,-event_engine_client,-event_engine_callback_cq",
    # The gateway does not fork. With fork support, gRPC tries to stop its threads before each fork of a library, fails,
    # and logs the failure at level INFO regardless of Lodge's log level.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    # For each client whose TLS handshake fails, gRPC writes a line to stderr, and waits until it is written. Strangers
    # could therefore stop a gateway whose stderr nobody reads.
    "GRPC_VERBOSITY": "NONE",
}

_SWITCH_SECONDS = 0.0005


def start_grpc() -> None:
    """Initialize gRPC with the settings for a gateway.

    Variables that the operator has set keep their values. The variables are removed again after the initialization,
    because child processes may use another version of gRPC.
    """
    ours = {name: value for name, value in _GRPC_VARIABLES.items() if name not in os.environ}
    os.environ.update(ours)
    from grpc.aio import init_grpc_aio  # noqa: PLC0415 - gRPC reads the variables once, when it is first used

    init_grpc_aio()
    for name in ours:
        del os.environ[name]


def leave_out_pandas() -> None:
    """Keep PySpark and pyarrow from importing pandas, which the gateway does not use.

    The import takes half a second and 35 MB of memory. PySpark's client requires pandas, and imports it with its
    message classes. pyarrow imports it when it first converts Python objects, and works without it.
    """
    if not hasattr(sys.modules["__main__"], "__file__"):
        return  # PySpark takes `python -c` for its own doctests, which need pandas

    from pyspark.sql.pandas import utils  # noqa: PLC0415 - only `lodge serve` has these messages

    utils.require_minimum_pandas_version = lambda: None
    sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas(MetaPathFinder):
    """Makes an import of pandas fail as if it were not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("The gateway does not import pandas.", name=fullname)


def switch_threads_often() -> None:
    """Let the event loop wait for a thread that computes for at most half a millisecond, instead of five.

    The event loop releases Python's lock whenever it reads, and must then get it back. With the usual interval, one
    thread that computes makes a statement wait a hundred times, for half a second in all.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def freeze_loaded_objects() -> None:
    """Exclude all objects that currently exist from garbage collection."""
    gc.collect()
    gc.freeze()


def raise_open_file_limit() -> int:
    """Raise the limit for open files as far as the system permits, and return it.

    Each connection is an open file. The usual limit, 1024, is for programs that use ``select``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
