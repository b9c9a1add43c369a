"""What the reaper process that `lodge serve` starts gets from it: its settings, and the ids of the roots.

The settings are in a configuration file, because the kernel limits an environment variable to 128 KiB. A setting such
as ``principal_backend`` can be longer. The file is in memory, and the process inherits its descriptor.
"""

import json
import os
from collections.abc import Mapping
from datetime import timedelta

import yaml

from lodge.audit_log import audit_destination
from lodge.settings import CONFIG_VARIABLE, ENVIRONMENT_PREFIX, ReapSettings, ServeSettings
from workspace.workspaces import Workspaces

_ROOT_IDS_VARIABLE = "_LODGE_ROOT_IDS"


class InheritedRootIds:
    """The ids of the roots that a gateway of the same `lodge serve` has found."""

    def read(self) -> Mapping[str, str] | None:
        """Return the ids, by root. None if `lodge serve` has not started this process."""
        text = os.environ.get(_ROOT_IDS_VARIABLE)
        return None if text is None else json.loads(text)

    def write(self, _value: Mapping[str, str], /) -> None:
        """Keep nothing. Only gateways tell each other about new roots."""


def environment_for(
    settings: ServeSettings, workspaces: Workspaces, root_ids: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """Return the environment variables for a reaper process, which must be started with the open files of this process.

    A variable names a new file in memory with the given settings and workspaces. Lodge variables in the environment of
    this process are not passed on.

    Args:
        settings: The settings of `lodge serve`.
        workspaces: The configured workspaces.
        root_ids: The ids of the roots that a gateway has found, by root. None if records are not files.
    """
    uris = [f"{name}={workspace.uri}" for name, workspace in workspaces.by_name.items()]
    values = {name: _format(getattr(settings, name)) for name in ReapSettings.model_fields} | {
        "workspace": ",".join(uris),
        "metrics_listen": settings.reaper_metrics_listen,
        "audit_log": audit_destination(settings) or settings.audit_log,
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    file = os.memfd_create("lodge-reaper-settings", flags=0)  # without the flag that closes it in the reaper
    os.write(file, yaml.safe_dump({key: value for key, value in values.items() if value is not None}).encode("ascii"))
    known = {} if root_ids is None else {_ROOT_IDS_VARIABLE: json.dumps(root_ids)}
    return inherited | known | {CONFIG_VARIABLE: f"/proc/self/fd/{file}"}


def _format(value: object) -> str | None:
    """Format a setting as text.

    Returns None if the setting has no value.
    """
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}"
    if isinstance(value, tuple):
        return ",".join(value) or None
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items()) or None
    return None if value is None else str(value)
