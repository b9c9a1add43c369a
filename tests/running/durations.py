"""The recorded durations of the test files.

A run of a tier records the durations in the user's cache directory, so they survive the checkout. On a machine without
a record, the durations in ``durations.json`` beside this module apply. `make durations` updates this file.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from tests.cache import user_cache

COMMITTED = Path(__file__).with_name("durations.json")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a test file.

    Attributes:
        seconds: The duration of its tests, with their fixtures.
        processor_seconds: The processor time of its worker and of all processes that the worker started.
    """

    seconds: float = 0.0
    processor_seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds + other.seconds, self.processor_seconds + other.processor_seconds)


@dataclass(frozen=True, slots=True)
class Record:
    """The durations of a tier.

    Attributes:
        elapsed_seconds: The duration of the run; 0.0 if no run is recorded.
        files: The cost of each test file, by its path.
    """

    elapsed_seconds: float = 0.0
    files: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def total(self) -> Cost:
        return sum(self.files.values(), Cost())

    @classmethod
    def read(cls, tier: str) -> Self:
        """Read the last record of a tier; an empty one if no run is recorded."""
        return cls._read(cache_file(), tier) or cls._read(COMMITTED, tier) or cls()

    @classmethod
    def expected(cls, tier: str) -> Self:
        """Read the last record of a tier, with the committed durations of files that it lacks."""
        last, committed = cls.read(tier), cls._read(COMMITTED, tier) or cls()
        return cls(last.elapsed_seconds, {**committed.files, **last.files})

    @classmethod
    def _read(cls, path: Path, tier: str) -> Self | None:
        try:
            found = json.loads(path.read_text())[tier]
            return cls(found["elapsed_seconds"], {name: Cost(**cost) for name, cost in found["files"].items()})
        except (OSError, ValueError, KeyError, TypeError):
            return None  # no record, or one of another version

    def write(self, tier: str) -> None:
        """Replace the record of a tier."""
        path = cache_file()
        try:
            tiers = json.loads(path.read_text())
        except (OSError, ValueError):
            tiers = {}
        files = {name: asdict(cost) for name, cost in sorted(self.files.items())}
        tiers[tier] = {"elapsed_seconds": self.elapsed_seconds, "files": files}
        path.parent.mkdir(parents=True, exist_ok=True)
        changed = path.with_suffix(f".{os.getpid()}")
        changed.write_text(json.dumps(tiers, indent=1) + "\n")
        changed.replace(path)


def cache_file() -> Path:
    """Return the path of the records of this machine."""
    return user_cache() / "tests" / "durations.json"


def main() -> int:
    """Copy the records of this machine to the checkout."""
    COMMITTED.write_text(cache_file().read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
