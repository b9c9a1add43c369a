"""The workspaces as they are now: a configuration that is loaded anew changes them while sessions go on."""

from workspace.workspaces import Workspaces


class CurrentWorkspaces:
    """What ``now`` holds is whole at any time; who needs several looks at it keeps what it read first.

    Args:
        workspaces: Those of the start.
    """

    def __init__(self, workspaces: Workspaces) -> None:
        self.now = workspaces
