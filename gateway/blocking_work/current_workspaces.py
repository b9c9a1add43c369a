"""The workspaces in the current configuration."""

from gateway.blocking_work.pools import Pool
from workspace.workspaces import Workspaces


class CurrentWorkspaces:
    """A reference to the workspaces that are currently configured.

    When the settings are reloaded, ``now`` is replaced while sessions continue. Each value of ``now`` is consistent in
    itself. Code that needs several lookups must read ``now`` once and use that value for all of them.

    Args:
        workspaces: The workspaces when the replica starts.
        reads: See below.

    Attributes:
        now: The workspaces since the last reload.
        reads: The pool for calls that read files of workspaces, for example to resolve the names in a plan.
    """

    def __init__(self, workspaces: Workspaces, reads: Pool) -> None:
        self.now = workspaces
        self.reads = reads
