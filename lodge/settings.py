"""The settings of Lodge: one typed model, whatever they come from.

Each field is an option of the command line, a key of the YAML file given with ``--config``, and an environment variable
``LODGE_…``; the first of these that has a value wins. Unknown environment variables are ignored, for Kubernetes sets
``LODGE_SERVICE_HOST`` and the like for a Service of that name; unknown keys and options are errors.

Source: seed 001, 4.1 and 5.5.
"""

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

import durationpy
import yaml
from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    YamlConfigSettingsSource,
)

from workspace.workspaces import Workspaces


class SettingError(Exception):
    """A setting is wrong; the message is one line that names it and the way out."""


def _duration(value: object) -> object:
    """Seconds of a duration such as ``30s``, ``500ms`` or ``1h30m``; a plain number is seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return durationpy.from_str(value).total_seconds()
        except durationpy.DurationError:
            raise ValueError(f"[{value}] is not a duration such as 30s, 5m or 1h") from None
    return value


def _list(value: object) -> object:
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


def _mapping(value: object) -> object:
    """``NAME=URI`` pairs as a mapping."""
    pairs = _list(value)
    if not isinstance(pairs, (list, tuple)):
        return pairs
    mapping: dict[str, str] = {}
    for pair in pairs:
        name, equals, uri = str(pair).partition("=")
        if not equals or not name.strip():
            raise ValueError(f"[{pair}] is not of the form NAME=URI, such as dfs=file:///data")
        if name in mapping:
            raise ValueError(f"the workspace [{name}] is given twice")
        mapping[name] = uri
    return mapping


Seconds = Annotated[float, BeforeValidator(_duration), Field(gt=0, allow_inf_nan=False)]


def _outside_kubernetes() -> bool:
    return "KUBERNETES_SERVICE_HOST" not in os.environ


class Settings(BaseSettings):
    """All settings; durations are in seconds once read."""

    model_config = SettingsConfigDict(env_prefix="LODGE_", extra="forbid", frozen=True)

    listen: str = "127.0.0.1:15002"
    backend: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_list)] = ()
    workspace: Annotated[Mapping[str, str], NoDecode, BeforeValidator(_mapping)] = Field(default_factory=dict)
    default_temporary_workspace: str = "dfs.tmp"
    session_idle_timeout: Seconds = 3600.0
    lease_duration: Seconds = 15.0
    grace_period: Seconds = 60.0
    reaper: bool = Field(default_factory=_outside_kubernetes)
    log_level: str = "info"
    log_query_text: bool = False
    max_message_bytes: int = Field(default=128 * 1024 * 1024, gt=0)
    spark_driver_memory: str = Field(default="2g", pattern=r"^[0-9]+[kmgt]$")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls)

    @field_validator("listen")
    @classmethod
    def _is_host_and_port(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"[{value}] is not of the form HOST:PORT, such as 127.0.0.1:15002")
        return value

    @field_validator("backend")
    @classmethod
    def _are_backends(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            parts = urlsplit(each)
            try:
                complete = parts.scheme == "sc" and bool(parts.hostname) and parts.port is not None
            except ValueError:
                complete = False
            if not complete or parts.path not in {"", "/"}:
                raise ValueError(f"[{each}] is not of the form sc://HOST:PORT")
        return value

    @field_validator("log_level")
    @classmethod
    def _is_level(cls, value: str) -> str:
        if value.lower() not in {"debug", "info", "warning", "error"}:
            raise ValueError(f"[{value}] is none of debug, info, warning, error")
        return value.lower()

    @classmethod
    def read(cls, config: Path | None, options: Mapping[str, Any]) -> Self:
        """The settings from all sources.

        Args:
            config: The YAML file, if one is given.
            options: What the command line says, by field.

        Raises: SettingError.
        """
        if config is not None and not config.is_file():
            raise SettingError(f"--config: there is no file [{config}]")
        source = type(cls.__name__, (cls,), {"model_config": SettingsConfigDict(yaml_file=config)})
        try:
            settings: Self = source(**options)
        except ValidationError as error:
            raise SettingError("; ".join(_described(each) for each in error.errors())) from None
        except (SettingsError, yaml.YAMLError, TypeError, ValueError) as error:
            raise SettingError(f"cannot read the settings: {' '.join(str(error).split())}") from None
        return settings

    def workspaces(self) -> Workspaces:
        """The workspaces, checked; those of the embedded default if none are given.

        Raises: WorkspaceSettingError.
        """
        return Workspaces.from_uris(self.workspace or _embedded_workspaces(), self.default_temporary_workspace)


def _described(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key [{key}]; known are {', '.join(Settings.model_fields)}"
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{key}: {text}" if f"[{error['input']}]" in text else f"{key}: [{error['input']}] is wrong: {text}"


def _embedded_workspaces() -> dict[str, str]:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    temporary = state / "lodge" / "dfs.tmp"
    temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"dfs": Path.cwd().as_uri(), "dfs.tmp": temporary.as_uri()}
