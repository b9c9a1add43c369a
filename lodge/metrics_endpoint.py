"""The HTTP address for probes and metrics of this process."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import structlog

from lodge.command_errors import StartError
from workspace.http_endpoint import HttpEndpoint, serve_http

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@contextmanager
def serve_metrics(address: str | None, endpoint: HttpEndpoint, *, event: str) -> Iterator[str | None]:
    """Serve probes and metrics for the duration of the block.

    Args:
        address: The address of the setting ``metrics_listen``. None if it is not set.
        endpoint: The answers to probes and metric requests.
        event: The log event that reports the address.

    Yields:
        The address, with the port that is used. None if it is not set.

    Raises:
        StartError: If the address cannot be used.
    """
    listening = None
    with ExitStack() as stack:
        if address is not None:
            try:
                listening = stack.enter_context(serve_http(address, endpoint))
            except OSError as error:
                raise StartError(
                    f"Cannot listen on [{address}]: {error}. Set another address with --metrics-listen."
                ) from error
            _log.info(event, address=listening)
        yield listening
