"""The format in which Spark transports the error of a scan to a client.

If a data source raises an error, Spark sends only the text of the error to the client. It adds Python and JVM stack
traces, and truncates the text to 2,048 characters. Therefore a :class:`ScanError` starts with one short line that a
gateway can find in the text::

    engine.error_report.ScanError: [LODGE_INVALID_VALUE] 'a.csv' in workspace 'dfs', line 3: … SQLSTATE: 22018 {…}

The traceback of the cause follows this line. Without a gateway, users read the line itself.

Guarantees:

1. The line has at most 1,600 characters, regardless of the contents of the file.
2. :func:`find_report` never fails. If the line was truncated, the function returns the remaining parts.

Not guaranteed: a reported error does not necessarily come from a scan. A client can include such a line in the text of
another error. It then receives its own text.
"""

import json
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.errors import EngineError

_MAX_TEXT_CHARACTERS = 700
_MAX_VALUE_CHARACTERS = 120
_MAX_JSON_CHARACTERS = 800
_MAX_TRACEBACK_CHARACTERS = 32_768

_UNFORESEEN = EngineError("The scan failed for a reason that Lodge did not foresee. The gateway's log has the details.")


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
        parameters = {name: _cut(value, _MAX_VALUE_CHARACTERS) for name, value in known.parameters.items()}
        while len(json.dumps(parameters)) > _MAX_JSON_CHARACTERS:
            parameters.popitem()
        text = _cut(" ".join(str(known).splitlines()), _MAX_TEXT_CHARACTERS)
        return cls(known.condition, known.sql_state, text, parameters)

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
        super().__init__(f"{self.report}\n\nCause:\n{lines[-_MAX_TRACEBACK_CHARACTERS:]}")


_LINE = re.compile(
    rf"(?:^|: ){re.escape(f'{__name__}.{ScanError.__name__}')}: "
    r"\[(?P<condition>LODGE_[A-Z_]{1,60})\] (?P<rest>[^\n]{1,1600})",
    re.MULTILINE,
)
_END = re.compile(r" SQLSTATE: (?P<sql_state>[0-9A-Z]{5})(?![0-9A-Z])")


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
    """Return the first report in the text of an error. Return None if there is none."""
    line = _LINE.search(text)
    if line is None:
        return None
    rest = line["rest"]
    ends = list(_END.finditer(rest))
    for end in ends:  # the message may contain such an end too, but only JSON follows the real end
        parameters = _parameters(rest[end.end() :])
        if parameters is not None:
            return ErrorReport(line["condition"], end["sql_state"], rest[: end.start()].strip(), parameters)
    if ends:
        return ErrorReport(line["condition"], ends[-1]["sql_state"], rest[: ends[-1].start()].strip())
    return ErrorReport(line["condition"], EngineError.sql_state, rest.strip())


def _parameters(encoded: str) -> Mapping[str, str] | None:
    """Return the parameters at the end of a line. Return None if the end is not a JSON object."""
    try:
        decoded = json.loads(encoded)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    return {_encodable(name): _encodable(value) for name, value in decoded.items() if isinstance(value, str)}


def _encodable(text: str) -> str:
    """Replace surrogates in the text, because UTF-8 cannot encode surrogates."""
    return text.encode(errors="replace").decode()


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
