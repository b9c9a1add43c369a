"""Structured logs: JSON lines on standard error, or readable lines on a terminal.

Why it exists: an event's name and fields are an interface, whoever wrote the line; and a secret must not reach one,
whoever forgot about it.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

_SECRET_NAMES = ("token", "authorization", "password", "secret", "credential")
_HIDDEN = "***"


def set_up_logs(level: str) -> None:
    """Sets structlog and the standard library's logging up, once a process.

    Args:
        level: The least level that is written: debug, info, warning or error.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        hide_secrets,
    ]
    terminal = sys.stderr.isatty()
    renderer: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if terminal
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    )
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer]
        )
    )
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)


def hide_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replaces the value of each field whose name says that it is a secret, however deep it is."""
    for key, value in event.items():
        event[key] = _hidden(key, value)
    return event


def _hidden(key: str, value: Any) -> Any:
    if any(name in key.lower() for name in _SECRET_NAMES):
        return _HIDDEN
    if isinstance(value, Mapping):
        return {name: _hidden(str(name), each) for name, each in value.items()}
    return value
