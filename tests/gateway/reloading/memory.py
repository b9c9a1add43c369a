"""Memory that outlives a gateway, for tests in one process."""

import pickle
from typing import Any


class Memory:
    """Memory for one value, which is copied like that of a real gateway."""

    def __init__(self) -> None:
        self._content = pickle.dumps(None)

    def read(self) -> Any:
        return pickle.loads(self._content)  # noqa: S301 - written by this test

    def write(self, value: Any) -> None:
        self._content = pickle.dumps(value)
