"""The workspaces in the current configuration."""

from workspace.workspaces import Workspaces


class CurrentWorkspaces:
    """A reference to the workspaces that are currently configured.

    When the settings are reloaded, ``now`` is replaced while sessions continue. Each value of ``now`` is consistent in
    itself. Code that needs several lookups must read ``now`` once and use that value for all of them.

    Args:
        workspaces: The workspaces when the replica starts.

    Attributes:
        now: The workspaces since the last reload.
    """

    def __init__(self, workspaces: Workspaces) -> None:
        self.now = workspaces
