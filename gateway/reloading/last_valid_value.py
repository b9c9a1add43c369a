"""The last valid value of a source: a file, several files, or a document at a URL.

Guarantees:

1. If the new content cannot be read or is not valid, the previous value stays in use. The failure is reported when its
   reason is new.
2. If the first read of a gateway that replaces another one fails, the gateway uses what the other one used last.
3. Content that ``parse`` has refused is not parsed again, because this can take seconds of processor time.
"""

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gateway.reloading.source_memory import KeptSource, SourceMemory

_MAX_REPORTED = 16

_Content = TypeVar("_Content")
_Value = TypeVar("_Value")


class SourceError(Exception):
    """Raised if a source cannot be read, or if its content is not valid.

    The message names the source, the problem and what to do, but never contains the content.
    """


@dataclass(frozen=True, slots=True)
class Reading(Generic[_Content, _Value]):
    """A valid content of a source.

    Attributes:
        content: The content.
        value: What the content means.
        read_at: When the read began, in seconds of the monotonic clock of this host.
    """

    content: _Content = field(repr=False)
    value: _Value = field(repr=False)
    read_at: float


class LastValidValue(Generic[_Content, _Value]):
    """The last valid value of a source.

    Args:
        name: What identifies the source in the memory.
        read: Reads the content. It may block, and raises SourceError.
        parse: Converts the content into a value. It raises SourceError. Pass :func:`unchanged` if ``read`` has done so.
        report: Reports a failure: the reason, and the value that stays in use.
        memory: Keeps the content for the gateway that replaces this one. None if there is none.
        repeat_seconds: After this time, a failure is reported again.

    Attributes:
        current: The last valid content and its value.
        problem: Why the last read failed. Empty if it succeeded.

    Raises:
        SourceError: If the first read fails, and no gateway before this one has read the source.
    """

    def __init__(
        self,
        name: Hashable,
        read: Callable[[], _Content],
        parse: Callable[[_Content], _Value],
        report: Callable[[str, _Value], None],
        memory: SourceMemory | None = None,
        *,
        repeat_seconds: float = math.inf,
    ) -> None:
        self._name = name
        self._read = read
        self._parse = parse
        self._report = report
        self._memory = memory or SourceMemory()
        self._repeat_seconds = repeat_seconds
        self._reported: dict[str, float] = {}
        self._refused: tuple[_Content, str] | None = None
        self.problem = ""
        started = time.monotonic()
        try:
            self.current = self._accept(read(), started)
        except SourceError as error:
            kept = self._memory.of_former_gateway(name)
            if kept is None:
                raise
            self.current = self._accept(kept.content, kept.valid_at)
            self.fail(str(error))

    def reload(self) -> bool:
        """Read the source, and use its content if it is valid.

        The method blocks, so call it in a thread, one call at a time.

        Returns:
            Whether the content has changed.
        """
        try:
            reading = self.read()
        except SourceError as error:
            self.fail(str(error))
            return False
        return self.use(reading)

    def read(self) -> Reading[_Content, _Value]:
        """Read the source without using its content.

        Raises:
            SourceError: If the content cannot be read or is not valid.
        """
        started, current = time.monotonic(), self.current
        content = self._read()
        if content != current.content:
            return self._accept(content, started)
        self._refused = None
        return Reading(current.content, current.value, started)

    def use(self, reading: Reading[_Content, _Value]) -> bool:
        """Use what :meth:`read` has returned last, and return whether the content has changed."""
        is_changed = reading.content is not self.current.content
        self.current, self.problem = reading, ""
        self._reported.clear()
        return is_changed

    def fail(self, problem: str) -> None:
        """Note why the last read failed."""
        now = time.monotonic()
        self.problem = problem
        if now - self._reported.get(problem, -math.inf) >= self._repeat_seconds:
            if len(self._reported) >= _MAX_REPORTED:
                self._reported.clear()
            self._reported[problem] = now
            self._report(problem, self.current.value)

    def _accept(self, content: _Content, read_at: float) -> Reading[_Content, _Value]:
        """Parse and keep new content."""
        if self._refused is not None and self._refused[0] == content:
            raise SourceError(self._refused[1])
        try:
            value = self._parse(content)
        except SourceError as error:
            self._refused = content, str(error)
            raise
        self._memory.keep(self._name, KeptSource(content, read_at))
        return Reading(content, value, read_at)


def unchanged(content: _Content) -> _Content:
    """Return the content itself, for sources whose content is the value."""
    return content
