"""The workspaces that are configured now."""

from workspace.workspaces import Workspaces


class CurrentWorkspaces:
    """A reference to the configured workspaces.

    A reload of the settings replaces them while sessions continue. ``now`` is always consistent in itself. Code that
    needs several lookups reads it once and keeps the value.

    Args:
        workspaces: The workspaces at the start of the replica.

    Attributes:
        now: The workspaces after the last reload.
    """

    def __init__(self, workspaces: Workspaces) -> None:
        self.now = workspaces
