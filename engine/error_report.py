"""The form in which the error of a scan passes through Spark.

Spark hands a client the text of what a data source raises, wrapped in Python and JVM stack traces and cut off at 2,048
characters. A :class:`ScanError` therefore starts with one short line that a gateway finds again::

    engine.error_report.ScanError: [LODGE_INVALID_VALUE] 'a.csv' in workspace 'dfs', line 3: … SQLSTATE: 22018 {…}

The traceback of the cause follows that line. Without a gateway, the line is what a user reads.

Guarantees:

1. The line has at most 1,600 characters, whatever the file contains.
2. :func:`find_report` never fails. It accepts a line that was cut off, and returns what is left.

Not guaranteed: that a reported error comes from a scan. A client can put the same line into the text of another error,
and then reads its own text.
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
    """What a scan reports about its failure.

    Attributes:
        condition: The condition of the error.
        sql_state: Its SQLSTATE.
        text: The message, on one line.
        parameters: What the error is about.
    """

    condition: str
    sql_state: str
    text: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException) -> "ErrorReport":
        """Return the report of what a scan raised."""
        known = error if isinstance(error, EngineError) else _UNFORESEEN
        parameters = {name: _cut(value, _MAX_VALUE_CHARACTERS) for name, value in known.parameters.items()}
        while len(json.dumps(parameters)) > _MAX_JSON_CHARACTERS:
            parameters.popitem()
        text = _cut(" ".join(str(known).splitlines()), _MAX_TEXT_CHARACTERS)
        return cls(known.condition, known.sql_state, text, parameters)

    def __str__(self) -> str:
        return f"[{self.condition}] {self.text} SQLSTATE: {self.sql_state} {json.dumps(dict(self.parameters))}"


class ScanError(Exception):
    """The failure of a scan, as Spark gets it.

    Attributes:
        report: What the error says.
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
    """Raise what a scan raises as a :class:`ScanError`.

    Raises:
        ScanError: The scan failed.
    """
    try:
        yield
    except ScanError:
        raise
    except Exception as error:  # noqa: BLE001 - Spark's entry into the engine: readers may be anyone's code
        raise ScanError(error) from None


def find_report(text: str) -> ErrorReport | None:
    """Return the first report in the text of an error; None if there is none."""
    line = _LINE.search(text)
    if line is None:
        return None
    rest = line["rest"]
    ends = list(_END.finditer(rest))
    for end in ends:  # a text may contain an end of its own, but only the last one is followed by nothing but JSON
        parameters = _parameters(rest[end.end() :])
        if parameters is not None:
            return ErrorReport(line["condition"], end["sql_state"], rest[: end.start()].strip(), parameters)
    if ends:
        return ErrorReport(line["condition"], ends[-1]["sql_state"], rest[: ends[-1].start()].strip())
    return ErrorReport(line["condition"], EngineError.sql_state, rest.strip())


def _parameters(encoded: str) -> Mapping[str, str] | None:
    """Return the parameters at the end of a line; None if there is something else."""
    try:
        decoded = json.loads(encoded)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    return {_encodable(name): _encodable(value) for name, value in decoded.items() if isinstance(value, str)}


def _encodable(text: str) -> str:
    """Return the text without surrogates, which JSON can express and UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
