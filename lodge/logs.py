"""Log output on stderr: JSON lines, or coloured text if stderr is a terminal.

Guarantees:

1. If stderr is not a terminal, each line is one JSON object with ``event``, ``level`` and ``timestamp`` (ISO 8601,
   UTC). This holds for structlog and for the standard library.
2. A field whose name marks it as a secret has the value ``***``, at any depth and also as a pair of gRPC metadata.
   Credentials with a recognisable form are ``***`` in texts and tracebacks too.

Not guaranteed: that a secret without a recognisable form is found in free text.
"""

import logging
import re
import sys
from collections.abc import Collection, Mapping

import structlog
from structlog.typing import EventDict, Processor

_MASK = "***"
_SECRET_NAME = re.compile(r"token|authorization|password|passwd|secret|credential|cookie|api[-_]?key", re.IGNORECASE)
_SECRET_TEXT = re.compile(
    r"(?P<kept>\b(?:bearer|basic)\s+|(?:token|password|passwd|secret)\s*=\s*)[^\s;&,'\"]+", re.IGNORECASE
)


def set_up_logs(level: str) -> None:
    """Set up structlog and the standard library's logging for this process.

    Args:
        level: The lowest level to log, in lower case.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[Processor] = [structlog.processors.format_exc_info, without_secrets, _renderer(sys.stderr.isatty())]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _configure_standard_library(number, shared, rendering)


def without_secrets(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Mask secrets in the fields of a log event; a structlog processor."""
    return {name: _field(name, value) for name, value in event.items()}


def _renderer(is_terminal: bool) -> Processor:
    if is_terminal:
        # The default traceback of the console shows local variables, and the secrets in them.
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer()


def _configure_standard_library(number: int, shared: list[Processor], rendering: list[Processor]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.captureWarnings(True)


def _field(name: object, value: object) -> object:
    return _MASK if _SECRET_NAME.search(str(name)) else _value(value)


def _value(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _field(name, item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value)
    return _SECRET_TEXT.sub(rf"\g<kept>{_MASK}", str(value))


def _items(values: Collection[object]) -> list[object]:
    match values:
        case (str(name), item) if isinstance(values, tuple):  # a pair of metadata, or of a mapping
            return [name, _field(name, item)]
        case _:
            return [_value(item) for item in values]
