"""The format in which Spark transports the error of a scan to a client.

If a data source raises an error, Spark sends only the text of the error to the client. It adds Python and JVM stack
traces, and truncates the text to 2,048 characters. Therefore a :class:`ScanError` starts with one short line that a
gateway can find in the text::

    engine.error_report.ScanError: [LODGE_INVALID_VALUE] 'a.csv' in workspace 'dfs', line 3: … SQLSTATE: 22018 {…}

The traceback of the cause follows this line. Without a gateway, users read the line itself.

Guarantees:

1. The line has at most 1,600 bytes for every file. Long texts and parameters lose their middle.
2. :func:`find_report` never fails, and searches at most 16 KiB. It accepts a line that was cut off, and returns what is
   left.
3. A report has a condition of :data:`engine.errors.CONDITIONS`, with its SQLSTATE. Errors of other packages that have
   another condition are reported as ``LODGE_READER_FAILED``.

Not guaranteed: that a report comes from a scan. A Python function of a user can raise an error with the same line. The
gateway therefore searches only the errors of Python workers.
"""

import json
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from engine.errors import CONDITIONS, EngineError
from engine.json_texts import read_json

_MAX_TEXT_BYTES = 700
_MAX_VALUE_BYTES = 400
_MAX_JSON_BYTES = 800
_MIN_VALUE_BYTES = 16
_MAX_PARAMETERS = 16
_MAX_TRACEBACK_CHARACTERS = 16_384
_MAX_SEARCHED_CHARACTERS = 16_384
_UNKNOWN_CONDITION = "LODGE_READER_FAILED"

_SPARK_PREFIX = "An exception was thrown from the Python worker: "
"""Spark's text before the error of a worker if ``simplifiedTraceback`` leaves no traceback."""

_UNFORESEEN = EngineError("The scan failed unexpectedly. The log of the gateway contains the details.")


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Condition, message and parameters of a failed scan.

    Attributes:
        condition: The condition of the error.
        sql_state: The SQLSTATE of the condition.
        text: The error message, as a single line.
        parameters: The parameters of the error.
    """

    condition: str
    sql_state: str
    text: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException) -> "ErrorReport":
        """Create the report for an exception that a scan raised."""
        known = error if isinstance(error, EngineError) else _UNFORESEEN
        condition = known.condition if known.condition in CONDITIONS else _UNKNOWN_CONDITION
        text = _shorten(" ".join(str(known).splitlines()), _MAX_TEXT_BYTES)
        return cls(condition, CONDITIONS[condition], text, _shorten_all(getattr(known, "parameters", {})))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ErrorReport":
        """Return a report that another process wrote as a JSON object.

        Raises:
            TypeError: If it has other fields.
            ValueError: If its values are not those of a report.
        """
        report = cls(**values)
        texts = (report.condition, report.sql_state, report.text)
        has_texts = all(isinstance(each, str) for each in texts) and isinstance(report.parameters, dict)
        if not has_texts or not all(isinstance(each, str) for each in report.parameters.values()):
            raise ValueError("The report of an error contains something else than texts.")
        if CONDITIONS.get(report.condition) != report.sql_state:
            raise ValueError(f"The report of an error has an unknown condition [{report.condition[:100]}].")
        return report

    def __str__(self) -> str:
        return f"[{self.condition}] {self.text} SQLSTATE: {self.sql_state} {json.dumps(dict(self.parameters))}"


class ScanError(Exception):
    """The failure of a scan, in the form that Spark transports.

    Attributes:
        report: The contents of the error.
    """

    def __init__(self, cause: BaseException) -> None:
        self.report = ErrorReport.of(cause)
        lines = "".join(traceback.format_exception(cause))
        super().__init__(_encodable(f"{self.report}\n\nCause:\n{lines[-_MAX_TRACEBACK_CHARACTERS:]}"))


_MARKER = f"{__name__}.{ScanError.__name__}: ["
_LINE = re.compile(
    rf"(?:^|{re.escape(_SPARK_PREFIX)}){re.escape(_MARKER)}"
    rf"(?P<condition>{'|'.join(sorted(CONDITIONS))})\] (?P<rest>[^\n]{{1,1600}})",
    re.MULTILINE,
)


@contextmanager
def reported_errors() -> Iterator[None]:
    """Convert the errors of a scan to :class:`ScanError`.

    Raises:
        ScanError: If the scan fails.
    """
    try:
        yield
    except ScanError:
        raise
    except Exception as error:  # noqa: BLE001 - Spark calls the engine here, and readers may be third-party code
        raise ScanError(error) from None


def find_report(text: str) -> ErrorReport | None:
    """Return the first report in the text of an error; None if there is none."""
    text = text[:_MAX_SEARCHED_CHARACTERS]
    line = _LINE.search(text) if _MARKER in text else None
    if line is None:
        return None
    condition, rest = line["condition"], line["rest"]
    sql_state = CONDITIONS[condition]
    end = f" SQLSTATE: {sql_state} "
    texts = rest.split(end)
    for count in range(1, len(texts)):  # a text may contain an end of its own, but only one is followed by JSON alone
        parameters = _parameters(end.join(texts[count:]))
        if parameters is not None:
            return ErrorReport(condition, sql_state, end.join(texts[:count]).strip(), parameters)
    return ErrorReport(condition, sql_state, end.join(texts[:-1] or texts).strip())


def _parameters(encoded: str) -> Mapping[str, str] | None:
    """Return the parameters at the end of a line. Return None if the end is not a JSON object."""
    try:
        decoded = read_json(encoded)
    except ValueError:
        return None
    if not isinstance(decoded, dict):
        return None
    return {_encodable(name): _encodable(value) for name, value in decoded.items() if isinstance(value, str)}


def _encodable(text: str) -> str:
    """Replace surrogates in the text, because UTF-8 cannot encode surrogates."""
    return text.encode(errors="replace").decode()


def _shorten_all(parameters: Mapping[str, object]) -> Mapping[str, str]:
    """Return the parameters, so short that their JSON fits. The largest values are shortened first."""
    short = {
        name: _shorten(str(value), _MAX_VALUE_BYTES) for name, value in islice(parameters.items(), _MAX_PARAMETERS)
    }
    while len(json.dumps(short)) > _MAX_JSON_BYTES:
        largest = max(short, key=lambda name: len(json.dumps(short[name])))
        size_bytes = len(short[largest].encode())
        if size_bytes < _MIN_VALUE_BYTES:  # only the names are long
            return {}
        short[largest] = _shorten(short[largest], size_bytes * 3 // 4)
    return short


def _shorten(text: str, max_bytes: int) -> str:
    """Return the text without its middle if it is too long, so that its beginning and its end remain."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= max_bytes:
        return encoded.decode()
    half = (max_bytes - 3) // 2
    return f"{encoded[:half].decode(errors='ignore')}...{encoded[-half:].decode(errors='ignore')}"
