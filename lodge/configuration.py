"""What ``lodge serve`` goes by now, and how it is read anew while sessions go on.

Why it exists: the workspace that takes temporary tables keeps its name for as long as the process runs, but its
location may change (seed 001, 5.1.5), and so may all other workspaces. Everything else takes a new start.

Guarantees:

1. Settings take effect as a whole or not at all. Ones that cannot be used are logged as ``configuration_rejected``, and
   everything stays as it was.
2. A setting that changed and takes a new start is named in a warning.

The log's event names and fields are an interface.
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
        settings: Those of the start.
        workspaces: As the settings say.
        read_settings: Reads options, environment and file anew; raises SettingError.
    """

    def __init__(
        self, settings: ServeSettings, workspaces: Workspaces, read_settings: Callable[[], ServeSettings]
    ) -> None:
        self.settings = settings
        self.workspaces = workspaces
        self._read_settings = read_settings

    def environment(self) -> Mapping[str, str]:
        """For a reaper that is started now."""
        return environment_for(self.settings, self.workspaces)

    async def reload(self, apply: Callable[[Workspaces], Awaitable[None]]) -> None:
        """Reads the settings anew and applies what can change.

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
        given = self._read_settings()
        fixed = {name: getattr(self.settings, name) for name in ServeSettings.model_fields if name not in _CHANGEABLE}
        ignored = sorted(name for name, value in fixed.items() if getattr(given, name) != value)
        settings = given.model_copy(update=fixed)
        workspaces = workspaces_from(settings)
        if settings.impersonation:
            check_impersonation(settings, workspaces)
        return settings, workspaces, ignored


def changes(before: Workspaces, after: Workspaces) -> Sequence[str]:
    """What is different, a phrase for each workspace."""
    found = []
    for name in sorted(before.by_name.keys() | after.by_name.keys()):
        old, new = before.by_name.get(name), after.by_name.get(name)
        if old != new:
            found.append(f"workspace [{name}]: {_described(old)} -> {_described(new)}")
    return found


def _described(workspace: Workspace | None) -> str:
    if workspace is None:
        return "none"
    return f"{workspace.uri}{' (writable)' if workspace.is_writable else ''}"
