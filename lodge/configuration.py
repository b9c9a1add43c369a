"""The configuration of ``lodge serve`` and its reload while sessions are open.

A reload can add, change and remove workspaces and authentication methods. The name of the default temporary workspace
is fixed while the process runs, but its URI may change [temporary-tables §5.1.5]. Changes to any other setting need a
restart.

Guarantees:

1. A reload either takes effect completely or has no effect. If the new settings cannot be used, the log event
   ``configuration_rejected`` contains the reason.
2. The log event ``settings_need_restart`` lists the changed settings that take effect only after a restart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog

from gateway.authentication.method import Method
from gateway.authentication.unavailable import UnavailableMethod
from gateway.errors import GatewayError
from gateway.reloading.source_memory import SourceMemory
from lodge.authentication import (
    Methods,
    check_listen_address,
    check_method_changes,
    method_list,
    open_methods,
)
from lodge.command_errors import LodgeError
from lodge.impersonation import check_impersonation
from lodge.settings import ServeSettings
from lodge.workspace_settings import workspaces_from
from workspace.workspaces import Workspace, Workspaces

_RETRY_SECONDS = 5.0
_FIXED = ServeSettings.model_fields.keys() - {"workspace", "writable_workspace", "authentication"}

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Configuration:
    """The current settings, workspaces and authentication methods of ``lodge serve``.

    Args:
        settings: The settings at the start of the process.
        workspaces: The workspaces that are defined in the settings.
        read_settings: A function that reads the options, the environment variables and the configuration file again.
            It raises SettingError if a setting is invalid.
        keep: A function that keeps the settings and workspaces after a reload, for a gateway that replaces this one.
        memory: Keeps the files and documents that this gateway reads again, for such a gateway.

    Attributes:
        memory: The same memory.
    """

    def __init__(
        self,
        settings: ServeSettings,
        workspaces: Workspaces,
        read_settings: Callable[[], ServeSettings],
        keep: Callable[[tuple[ServeSettings, Workspaces]], None] = lambda accepted: None,
        memory: SourceMemory | None = None,
    ) -> None:
        self.memory = memory or SourceMemory()
        self._keep = keep
        self._changing = asyncio.Lock()
        self.settings = settings
        self.workspaces = workspaces
        self.methods: Methods = {}
        self._read_settings = read_settings

    def open_authentication(self, *, replaces_gateway: bool = False) -> None:
        """Create the authentication methods at the start.

        The method reads files and contacts servers.

        Args:
            replaces_gateway: Whether this gateway replaces another one. Then a method that cannot be opened refuses all
                logins until :meth:`open_missing_methods` has opened it.

        Raises:
            SettingError: If a method cannot be used, or if a method is missing.
        """
        check_listen_address(self.settings)
        self.methods = open_methods(self.settings, may_be_missing=replaces_gateway, memory=self.memory)

    async def open_missing_methods(self, apply: Callable[[Workspaces, Sequence[Method]], Awaitable[None]]) -> None:
        """Open the authentication methods that could not be opened at the start, as soon as that is possible.

        Args:
            apply: See :meth:`reload`.
        """
        while _count_missing(self.methods):
            await asyncio.sleep(_RETRY_SECONDS)
            async with self._changing:
                methods = await asyncio.to_thread(
                    open_methods, self.settings, self.methods, may_be_missing=True, memory=self.memory
                )
                if _count_missing(methods) == _count_missing(self.methods):
                    self.methods = methods
                    continue
                with suppress(GatewayError, OSError):
                    await apply(self.workspaces, method_list(methods))
                    self.methods = methods

    async def reload(self, apply: Callable[[Workspaces, Sequence[Method]], Awaitable[None]]) -> Sequence[str] | None:
        """Read the settings again and apply the changes to workspaces and authentication methods.

        If the new settings cannot be used, they are logged and the current settings stay in effect.

        Args:
            apply: A function that passes the new workspaces and methods to the gateway. It raises OSError or
                GatewayError if they cannot be used.

        Returns:
            A description of each change. None if the new settings cannot be used.
        """
        async with self._changing:
            return await self._reload(apply)

    async def _reload(self, apply: Callable[[Workspaces, Sequence[Method]], Awaitable[None]]) -> Sequence[str] | None:
        try:
            settings, workspaces, methods, ignored = await asyncio.to_thread(self._read)
            await apply(workspaces, method_list(methods))
        except (LodgeError, GatewayError, OSError, ValueError) as error:
            _log.error("configuration_rejected", reason=str(error))
            return None
        if ignored:
            _log.warning("settings_need_restart", settings=ignored)
        changed = [*changes(self.workspaces, workspaces), *method_changes(self.methods, methods)]
        self.settings, self.workspaces, self.methods = settings, workspaces, methods
        self._keep((settings, workspaces))
        _log.info("configuration_reloaded", changed=changed)
        return changed

    def _read(self) -> tuple[ServeSettings, Workspaces, Methods, Sequence[str]]:
        read = self._read_settings()
        settings, workspaces = checked_reload(self.settings, read)
        ignored = sorted(name for name in _FIXED if getattr(read, name) != getattr(settings, name))
        return settings, workspaces, open_methods(settings, self.methods, memory=self.memory), ignored


def _count_missing(methods: Methods) -> int:
    return sum(isinstance(method, UnavailableMethod) for method in methods.values())


def checked_reload(before: ServeSettings, read: ServeSettings) -> tuple[ServeSettings, Workspaces]:
    """Return the settings and the workspaces after a reload. Settings that need a restart keep their values.

    Args:
        before: The settings before the reload.
        read: The settings that were read again.

    Raises:
        SettingError: If the settings cannot be used.
    """
    settings = read.model_copy(update={name: getattr(before, name) for name in _FIXED})
    workspaces = workspaces_from(settings)
    if settings.impersonation:
        check_impersonation(settings, workspaces)
    check_listen_address(settings)
    check_method_changes(before, settings)
    return settings, workspaces


def changes(before: Workspaces, after: Workspaces) -> Sequence[str]:
    """Return a description of each workspace that was added, changed or removed."""
    found = []
    for name in sorted(before.by_name.keys() | after.by_name.keys()):
        old, new = before.by_name.get(name), after.by_name.get(name)
        if old != new:
            found.append(f"workspace [{name}]: {_describe(old)} -> {_describe(new)}")
    return found


def method_changes(before: Methods, after: Methods) -> Sequence[str]:
    """Return a description of the authentication methods, if they have changed."""
    if list(before) == list(after):
        return []
    old, new = (", ".join(method.kind for method in methods) or "none" for methods in (before, after))
    return [f"authentication: {old} -> {new}"]


def _describe(workspace: Workspace | None) -> str:
    if workspace is None:
        return "none"
    return f"{workspace.uri}{' (writable)' if workspace.is_writable else ''}"
