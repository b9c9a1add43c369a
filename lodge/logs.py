"""Log output on stderr, as JSON lines or as coloured text.

The output is coloured text if stderr is a terminal.

Guarantees:

1. If stderr is not a terminal, each line is one JSON object with ``event``, ``level`` and ``timestamp`` (ISO 8601,
   UTC). This applies to events from structlog and from the standard library, and to errors that end a thread.
2. If the name of a field shows that its value is a secret, the value is replaced by ``***``. This applies to nested
   fields at any depth and to pairs of gRPC metadata. In strings and tracebacks, credentials in a recognizable form are
   also replaced by ``***``.
3. The event loop does not wait for a reader of stderr that stalls (:mod:`lodge.log_output`).
4. A text has at most ``_MAX_CHARACTERS``, and a list at most ``_MAX_ITEMS``. What is left out is counted. The same
   event of the same principal is logged a limited number of times (:mod:`lodge.event_limits`). All records of a logger
   of the standard library count as the same event.

Not guaranteed: Secrets in free text are not masked if they do not have a recognizable form.
"""

import atexit
import json
import logging
import re
import string
import sys
import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, Processor

from lodge.event_limits import EventLimits, Origin
from lodge.log_output import THREAD_NAME, LogOutput

_MAX_CHARACTERS = 8 * 1024
_MAX_ITEMS = 100
_CHARACTERS_OF_TOKENS = f"{string.ascii_letters}{string.digits}_-."

_MASK = "***"
_SECRET_NAME = re.compile(r"token|authorization|password|passwd|secret|credential|cookie|api[-_]?key", re.IGNORECASE)
_SECRET_TEXT = re.compile(
    r"(?P<kept>\b(?:bearer|basic)\s+|(?:token|password|passwd|secret)\s*=\s*['\"]?)[^\s;&,'\"]+", re.IGNORECASE
)
# Tokens that Lodge issues, and JSON Web Tokens, both with and without a signature.
_TOKEN = re.compile(r"\blodge_[A-Za-z0-9_-]{43}|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")


def set_up_logs(level: str) -> LogOutput:
    """Configure structlog and the standard library's logging for this process.

    Args:
        level: The lowest level to log, in lower case.

    Returns:
        The output, which is closed when the process ends.
    """
    output = LogOutput(sys.stderr.fileno(), _describe_lost)
    atexit.register(output.close)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering: list[Processor] = [structlog.processors.format_exc_info, without_secrets, _renderer(sys.stderr.isatty())]
    number = logging.getLevelNamesMapping()[level.upper()]
    limits = EventLimits(_log_omitted)
    structlog.configure(
        processors=[*shared, limits, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: structlog.WriteLogger(cast("TextIO", output)),
        cache_logger_on_first_use=True,
    )
    _configure_standard_library(output, number, limits, shared, rendering)
    threading.excepthook = _log_thread_failure
    return output


def without_secrets(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Mask secrets in the fields of a log event. This function is a structlog processor."""
    return {name: _field(name, value) for name, value in event.items()}


def _renderer(is_terminal: bool) -> Processor:
    if is_terminal:
        # The console's default traceback format shows local variables, which may contain secrets.
        return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer()


def _describe_lost(count: int) -> str:
    """Return the line about lost lines, without structlog: the thread of the output must not wait for itself."""
    timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": "log_lines_lost", "level": "error", "timestamp": timestamp, "count": count})


def _log_omitted(origin: Origin, count: int) -> None:
    name, principal = origin
    structlog.get_logger().warning("log_events_omitted", omitted_event=name, caused_by=principal, count=count)


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread, unless it is the thread of the log."""
    if failure.thread is None or failure.thread.name == THREAD_NAME or failure.exc_type is SystemExit:
        threading.__excepthook__(failure)
    else:
        structlog.get_logger().error("thread_failed", thread=failure.thread.name, exc_info=failure.exc_value)


def _configure_standard_library(
    output: LogOutput, number: int, limits: EventLimits, shared: list[Processor], rendering: list[Processor]
) -> None:
    handler = logging.StreamHandler(output)
    handler.addFilter(lambda record: _is_within(limits, record))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.captureWarnings(True)


def _is_within(limits: EventLimits, record: logging.LogRecord) -> bool:
    """Return whether a record of a library is within the limit of its principal.

    All records of a logger share a limit, because their texts can contain names that a client chose.
    """
    return limits.is_allowed(record.name, structlog.contextvars.get_contextvars().get("principal"))


def _field(name: object, value: object) -> object:
    return _MASK if _SECRET_NAME.search(str(name)) else _value(value)


def _value(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): _field(name, item) for name, item in islice(value.items(), _MAX_ITEMS)}
    if isinstance(value, list | tuple | set | frozenset):
        return _items(value)
    return _TOKEN.sub(_MASK, _SECRET_TEXT.sub(rf"\g<kept>{_MASK}", _shorten(str(value))))


def _shorten(text: str) -> str:
    """Remove the middle of a long text, and what remains of a word there, because it may be a part of a secret."""
    if len(text) <= _MAX_CHARACTERS:
        return text
    begin = text[: _MAX_CHARACTERS // 2].rstrip(_CHARACTERS_OF_TOKENS)
    end = text[-_MAX_CHARACTERS // 2 :].lstrip(_CHARACTERS_OF_TOKENS)
    return f"{begin} ... ({len(text)} characters) ... {end}"


def _items(values: Collection[object]) -> list[object]:
    match values:
        case (str(name), item) if isinstance(values, tuple):  # a metadata pair or a mapping entry
            return [name, _field(name, item)]
        case _:
            items = [_value(item) for item in islice(values, _MAX_ITEMS)]
            return items if len(values) <= _MAX_ITEMS else [*items, f"... ({len(values)} in total)"]
