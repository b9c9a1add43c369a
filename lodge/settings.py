"""The settings of ``lodge serve`` and ``lodge reap``, from options, environment and a YAML file.

Each field has three names. For ``lease_duration`` they are, in the order of precedence:

1. the option ``--lease-duration``,
2. the variable ``LODGE_LEASE_DURATION``,
3. the key ``lease_duration`` or ``lease-duration`` in the file that ``--config`` names.

The first source that gives a value wins, also for lists and mappings. The description of a field is its help text.

Guarantees:

1. An unknown option or YAML key stops the start. An unknown variable does not: Kubernetes sets such variables for a
   service with the name ``lodge``.
2. One SettingError lists all wrong settings, one line each, with key, value and instruction. It masks parts of a value
   that may be secret.
3. One file serves both commands. ``lodge reap`` skips the keys that only ``lodge serve`` has.
"""

import argparse
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import yaml
from pydantic import ByteSize, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from lodge.errors import SettingError
from lodge.setting_types import (
    Backends,
    Duration,
    InstanceName,
    ListenAddress,
    LowerCase,
    Memory,
    Metavar,
    Names,
    ObjectName,
    PrincipalBackends,
    WorkspaceUris,
)

ENVIRONMENT_PREFIX = "LODGE_"
CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"
_LARGEST_MESSAGE_BYTES = 2**31 - 1
_FOLLOWS_FROM_ANOTHER = "default_factory_not_called"

LogLevel = Annotated[Literal["debug", "info", "warning", "error"], LowerCase, Metavar("LEVEL")]
Limit = Annotated[int | None, Field(ge=0), Metavar("NUMBER")]
SizeLimit = Annotated[ByteSize | None, Field(ge=0), Metavar("BYTES")]
MessageSize = Annotated[ByteSize, Field(gt=0, le=_LARGEST_MESSAGE_BYTES), Metavar("BYTES")]
RecordStore = Annotated[Literal["files", "kubernetes"], LowerCase, Metavar("STORE")]
Namespace = Annotated[ObjectName | None, Metavar("NAMESPACE")]
Share = Annotated[float, Field(gt=0, le=1), Metavar("SHARE")]
Count = Annotated[int, Field(ge=1), Metavar("NUMBER")]
MetricsAddress = Annotated[ListenAddress | None, Metavar("HOST:PORT")]
PodText = Annotated[str | None, Metavar("TEXT")]


def _default_mass_expiry_share(settings: Mapping[str, Any]) -> float:
    """Return 1 for records in files, where the death of the only gateway is not a mass expiry."""
    return 0.5 if settings.get("records") == "kubernetes" else 1.0


class ReapSettings(BaseSettings):
    """Settings of ``lodge reap``; a gateway of the same workspace needs the same values."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        extra="forbid",
        frozen=True,
        cli_kebab_case=True,
        cli_implicit_flags="dual",
    )

    workspace: WorkspaceUris = Field(
        {},
        description="A workspace, such as dfs=file:///data; may be repeated. If two names match, the longer one wins. "
        "Default: dfs is the current directory, and dfs.tmp is a private directory for temporary tables below "
        "$XDG_STATE_HOME or ~/.local/state.",
    )
    default_temporary_workspace: Annotated[str, Metavar("NAME")] = Field(
        "dfs.tmp", description="The workspace that stores temporary tables. Default: dfs.tmp."
    )
    lease_duration: Duration = Field(
        timedelta(seconds=15),
        description="The silence after which a gateway is lost. All gateways and reapers of a workspace need the same "
        "value. Default: 15s.",
    )
    grace_period: Duration = Field(
        timedelta(seconds=60),
        description="How long the reaper must observe that something is dead before it removes it. Default: 60s.",
    )
    records: RecordStore = Field(
        "files",
        description="Where session records and leases are stored: files, in the default temporary workspace; "
        "kubernetes, as ConnectSession and Lease objects. Default: files.",
    )
    kubeconfig: Annotated[Path | None, Metavar("FILE")] = Field(
        None,
        description="The kubeconfig file for Kubernetes. Default: the pod's service account; outside a pod the file "
        "that KUBECONFIG names, or ~/.kube/config.",
    )
    namespace: Namespace = Field(
        None, description="The Kubernetes namespace of records and leases. Default: that of the pod or the kubeconfig."
    )
    instance: InstanceName = Field(
        "lodge",
        description="The name of this Lodge in the namespace. The names of its objects begin with it. Default: lodge.",
    )
    removals: Count = Field(
        4, description="The number of session locations that the reaper removes at the same time. Default: 4."
    )
    resync_period: Duration = Field(
        timedelta(minutes=5),
        description="How often the reaper lists all session records, beside its watch. Default: 5m.",
    )
    mass_expiry_share: Share = Field(
        default_factory=_default_mass_expiry_share,
        description="If more than this share of all sessions looks dead at once, the reaper ends none of them until a "
        "person confirms it. 1 disables that. Default: 0.5 with --records kubernetes, else 1.",
    )
    mass_expiry_minimum: Count = Field(
        20, description="The smallest number of dead sessions to which --mass-expiry-share applies. Default: 20."
    )
    metrics_listen: MetricsAddress = Field(
        None,
        description="The address at which the reaper serves /metrics, /healthz and /readyz over HTTP. Default: none.",
    )
    leader_election: bool = Field(
        default_factory=lambda settings: settings.get("records") == "kubernetes",
        description="Elect one of several reapers by a Lease; only that one acts. Default: yes with --records "
        "kubernetes.",
    )
    log_level: LogLevel = Field(
        "info", description="The lowest level to log: debug, info, warning or error. Default: info."
    )

    @field_validator("leader_election")
    @classmethod
    def _check_leader_election(cls, value: bool, settings: ValidationInfo) -> bool:
        if value and settings.data.get("records") != "kubernetes":
            raise ValueError("it needs --records kubernetes; with records in files, all reapers may act")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources after the options; ``init_settings`` is the YAML file."""
        return env_settings, init_settings


class ServeSettings(ReapSettings):
    """Settings of ``lodge serve``: those of the gateway, its reaper and its local Spark."""

    listen: ListenAddress = Field(
        "127.0.0.1:15002",
        description="The address for clients; port 0 lets the system choose a port. Default: 127.0.0.1:15002.",
    )
    backend: Backends = Field(
        (),
        description="A Spark Connect server behind the gateway; may be repeated. Default: the gateway starts a local "
        "Spark, and stops it.",
    )
    session_idle_timeout: Duration = Field(
        timedelta(minutes=60),
        description="The time without a request or a running operation after which a session ends. Default: 60m.",
    )
    reaper: bool = Field(
        default_factory=lambda: "KUBERNETES_SERVICE_HOST" not in os.environ,
        description="Run a reaper as a child process of the gateway. Default: yes, but no in Kubernetes.",
    )
    writable_workspace: Names = Field(
        (),
        description="A further workspace in which CREATE TABLE ... AS and DROP TABLE may write; may be repeated. "
        "Default: none.",
    )
    max_session_tables: Limit = Field(None, description="The most temporary tables of a session. Default: no limit.")
    max_session_bytes: SizeLimit = Field(
        None, description="The most bytes in all temporary tables of a session, such as 10GiB. Default: no limit."
    )
    max_principal_tables: Limit = Field(
        None, description="The most temporary tables of a principal in all its sessions. Default: no limit."
    )
    max_principal_bytes: SizeLimit = Field(
        None,
        description="The most bytes in the temporary tables of all sessions of a principal. Default: no limit.",
    )
    detached_timeout: Duration = Field(
        timedelta(minutes=5),
        description="How long a Lodge statement may run after its client disconnected. Default: 5m.",
    )
    impersonation: bool = Field(
        False,
        description="Give the session locations of a principal to the OS user with the principal's name. Each "
        "principal needs a --principal-backend that runs as that user. Lodge must run as root. Default: no.",
    )
    principal_backend: PrincipalBackends = Field(
        {},
        description="The backend for the statements of one principal, such as ada=sc://127.0.0.1:15003; may be "
        "repeated. Default: all principals use the backends of --backend.",
    )
    log_query_text: bool = Field(False, description="Log the text of statements. Default: no.")
    max_message_bytes: MessageSize = Field(
        ByteSize(128 * 1024 * 1024),
        description="The largest message that the gateway accepts, such as 64MiB. Default: 128MiB.",
    )
    pod_name: PodText = Field(None, description="The name of the gateway's pod, for the reaper. Default: none.")
    pod_uid: PodText = Field(None, description="The UID of the gateway's pod, for the reaper. Default: none.")
    node_name: PodText = Field(None, description="The node of the gateway's pod, for the reaper. Default: none.")
    spark_driver_memory: Memory = Field(
        "2g", description="The memory of the local Spark, such as 512m or 4g. Default: 2g."
    )


Settings = TypeVar("Settings", bound=ReapSettings)


class SettingsOptions(Generic[Settings]):
    """The options of one command, one for each field of its settings.

    Args:
        model: The settings of the command.
        parser: The parser of the command; it gets the options and ``--config``.
    """

    def __init__(self, model: type[Settings], parser: argparse.ArgumentParser) -> None:
        self._model = model
        parser.add_argument(
            "--config",
            metavar="FILE",
            default=os.environ.get(CONFIG_VARIABLE),
            help=f"A YAML file with the names of these options as keys (or {CONFIG_VARIABLE}). Each option is also a "
            f"variable, such as {ENVIRONMENT_PREFIX}LOG_LEVEL. An option overrides a variable, and a variable the "
            "file.",
        )
        self._source = CliSettingsSource[Any](
            model, root_parser=parser, add_argument_method=self._add_argument, cli_avoid_json=True
        )

    def read(self, arguments: argparse.Namespace) -> Settings:
        """Combine options, environment and file.

        Args:
            arguments: The parsed command line.

        Returns:
            The settings.

        Raises:
            SettingError: If a setting is wrong; see guarantee 2.
        """
        model = self._model
        options = {key: value for key, value in vars(arguments).items() if key in model.model_fields}
        from_file = {} if arguments.config is None else _read_file(Path(arguments.config), model)
        try:
            return CliApp.run(model, cli_args=options, cli_settings_source=self._source, **from_file)
        except ValidationError as error:
            causes = (problem for problem in error.errors() if problem["type"] != _FOLLOWS_FROM_ANOTHER)
            raise SettingError("\n".join(map(_explain, causes))) from None

    def _add_argument(self, parser: Any, *names: str, **keywords: Any) -> Any:
        field = self._model.model_fields[keywords["dest"]]
        keywords["help"] = (field.description or "").replace("%", "%%")
        if "metavar" in keywords:
            keywords["metavar"] = next(item.text for item in field.metadata if isinstance(item, Metavar))
        return parser.add_argument(*names, **keywords)


def _read_file(path: Path, model: type[ReapSettings]) -> Mapping[str, Any]:
    try:
        content = YamlConfigSettingsSource(model, yaml_file=_require(path)).yaml_data
    except OSError as error:
        raise SettingError(f"config cannot be [{path}]: {error.strerror}. Give a YAML file that exists.") from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"config cannot be [{path}]: it is not YAML: {reason}.") from None
    except (AttributeError, TypeError, ValueError):  # the content is a list or a text, or a key is a number
        raise SettingError(f"config cannot be [{path}]: it must consist of lines KEY: VALUE.") from None
    return _select_keys(content, path, model)


def _require(path: Path) -> Path:
    """Return the path of a file that exists; the library treats a missing file as an empty one.

    Raises:
        OSError: If the file cannot be opened.
    """
    path.open("rb").close()
    return path


def _select_keys(content: Mapping[Any, Any], path: Path, model: type[ReapSettings]) -> Mapping[str, Any]:
    known: dict[str, Any] = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in ServeSettings.model_fields:
            names = ", ".join(sorted(ServeSettings.model_fields))
            raise SettingError(f"The key [{key}] in [{path}] is unknown. Known keys are: {names}.")
        if name in known:
            raise SettingError(f"The key [{name}] occurs twice in [{path}]. Remove one of them.")
        known[name] = value
    return {name: value for name, value in known.items() if name in model.model_fields}


def _explain(problem: ErrorDetails) -> str:
    key = str(problem["loc"][0])
    reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
    option = key.replace("_", "-")
    return (
        f"{key} cannot be [{_mask_secrets(str(problem['input']))}]: {reason}. "
        f"Set it with --{option}, {ENVIRONMENT_PREFIX}{key.upper()} or {key} in the --config file."
    )


def _mask_secrets(text: str) -> str:
    """Mask the user before and the parameters after the address in a connection string."""
    return re.sub(r"//[^/@]*@", "//***@", re.sub(r";.*", ";***", text, flags=re.DOTALL))
