"""The types of fixtures that are functions."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

Action = Callable[[], Any]
Eventually = Callable[[Callable[[], object], str], None]
InProcesses = Callable[[Sequence[Action]], list[Any]]
InterruptedAt = Callable[[int, Action, Action], tuple[bool, Any]]
KilledAt = Callable[[int, Action], bool]
NewRoot = Callable[[], Path]
Outage = Callable[[], AbstractContextManager[None]]
WaitUntil = Callable[..., None]
