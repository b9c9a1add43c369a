"""The processes of a running ``lodge serve``."""

from contextlib import suppress
from pathlib import Path

from tests.cluster.processes import children_of


def gateway_of(watcher: int) -> int:
    """Return the id of the gateway's process.

    Args:
        watcher: The id of the process of ``lodge serve``, which has started the gateway.

    Raises:
        LookupError: The gateway does not run now.
    """
    for child in children_of(watcher):
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == "lodge-gateway":
                return child
    raise LookupError(f"The process {watcher} has no gateway.")
