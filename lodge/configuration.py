"""The configuration of ``lodge serve``, and its reload while sessions are open.

The default temporary workspace keeps its name while the process runs, but its URI may change
[temporary-tables §5.1.5], and so may all other workspaces. Every other setting needs a restart.

Guarantees:

1. A reload takes effect as a whole or not at all. ``configuration_rejected`` logs settings that cannot be used.
2. ``settings_need_restart`` names the changed settings that need a restart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import structlog

from lodge.errors import LodgeError
from lodge.impersonation import check_impersonation
from lodge.reaper_process import environment_for
from lodge.settings import ServeSettings
from lodge.workspace_settings import workspaces_from
from workspace.workspaces import Workspace, Workspaces

_CHANGEABLE = frozenset({"workspace", "writable_workspace"})

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Configuration:
    """The settings and workspaces in force.

    Args:
        settings: The settings at the start.
        workspaces: The workspaces that the settings name.
        read_settings: Reads options, environment and file again; raises SettingError.
    """

    def __init__(
        self, settings: ServeSettings, workspaces: Workspaces, read_settings: Callable[[], ServeSettings]
    ) -> None:
        self.settings = settings
        self.workspaces = workspaces
        self._read_settings = read_settings

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables of a reaper that starts now."""
        return environment_for(self.settings, self.workspaces)

    async def reload(self, apply: Callable[[Workspaces], Awaitable[None]]) -> None:
        """Read the settings again and apply those that can change.

        Args:
            apply: Gives the gateway its new workspaces; raises OSError if they cannot be used.
        """
        try:
            settings, workspaces, ignored = await asyncio.to_thread(self._read)
            await apply(workspaces)
        except (LodgeError, OSError) as error:
            _log.error("configuration_rejected", reason=str(error))
            return
        if ignored:
            _log.warning("settings_need_restart", settings=ignored)
        changed = changes(self.workspaces, workspaces)
        self.settings, self.workspaces = settings, workspaces
        _log.info("configuration_reloaded", changed=changed)

    def _read(self) -> tuple[ServeSettings, Workspaces, Sequence[str]]:
        read = self._read_settings()
        fixed = {name: getattr(self.settings, name) for name in ServeSettings.model_fields if name not in _CHANGEABLE}
        ignored = sorted(name for name, value in fixed.items() if getattr(read, name) != value)
        settings = read.model_copy(update=fixed)
        workspaces = workspaces_from(settings)
        if settings.impersonation:
            check_impersonation(settings, workspaces)
        return settings, workspaces, ignored


def changes(before: Workspaces, after: Workspaces) -> Sequence[str]:
    """Describe the differences, one phrase for each changed workspace."""
    found = []
    for name in sorted(before.by_name.keys() | after.by_name.keys()):
        old, new = before.by_name.get(name), after.by_name.get(name)
        if old != new:
            found.append(f"workspace [{name}]: {_describe(old)} -> {_describe(new)}")
    return found


def _describe(workspace: Workspace | None) -> str:
    if workspace is None:
        return "none"
    return f"{workspace.uri}{' (writable)' if workspace.is_writable else ''}"
