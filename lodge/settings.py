"""The settings of ``lodge serve`` and ``lodge reap``: one model for options, environment and YAML.

A field ``lease_duration`` is the option ``--lease-duration``, the variable ``LODGE_LEASE_DURATION`` and the key
``lease_duration`` (or ``lease-duration``) of the file given with ``--config``; of several that give a value,
the first in this order wins, as a whole. A field's description is its help text.

Guarantees:

1. An unknown option or YAML key stops the start. Unknown variables do not: Kubernetes sets some of its own for
   a service that is called ``lodge``.
2. What is wrong comes as one SettingError, a line for each setting, with its key, its value and the way out,
   and without what may be a secret in a value.
3. One file serves both commands: ``lodge reap`` skips the keys that only ``lodge serve`` has.
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


def _share_that_holds(given: Mapping[str, Any]) -> float:
    """With files, one gateway and its reaper are often all there is: its death is no mass expiry."""
    return 0.5 if given.get("records") == "kubernetes" else 1.0


class ReapSettings(BaseSettings):
    """What gateway and reaper of one workspace must be told alike."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        extra="forbid",
        frozen=True,
        cli_kebab_case=True,
        cli_implicit_flags="dual",
    )

    workspace: WorkspaceUris = Field(
        {},
        description="A workspace, such as dfs=file:///data; may be repeated. Of two names that fit, the longer "
        "wins. Default: dfs is the current directory, dfs.tmp a private directory for temporary tables below "
        "$XDG_STATE_HOME or ~/.local/state.",
    )
    default_temporary_workspace: Annotated[str, Metavar("NAME")] = Field(
        "dfs.tmp", description="The workspace that takes temporary tables. Default: dfs.tmp."
    )
    lease_duration: Duration = Field(
        timedelta(seconds=15),
        description="Silence after which a gateway counts as lost; the same for all gateways and reapers of a "
        "workspace. Default: 15s.",
    )
    grace_period: Duration = Field(
        timedelta(seconds=60),
        description="How long something must look dead before the reaper removes it. Default: 60s.",
    )
    records: RecordStore = Field(
        "files",
        description="Where session records and leases are kept: files, on the storage of the default workspace for "
        "temporary tables, or kubernetes, as ConnectSession and Lease objects. Default: files.",
    )
    kubeconfig: Annotated[Path | None, Metavar("FILE")] = Field(
        None,
        description="How to reach Kubernetes. Default: the pod's own service account; outside of a pod what KUBECONFIG "
        "names, or ~/.kube/config.",
    )
    namespace: Namespace = Field(
        None, description="The Kubernetes namespace of records and leases. Default: the pod's, or the kubeconfig's."
    )
    instance: InstanceName = Field(
        "lodge",
        description="The name of this Lodge among others in the namespace; the names of its objects begin with it. "
        "Default: lodge.",
    )
    removals: Count = Field(4, description="How many locations the reaper removes at once. Default: 4.")
    resync_period: Duration = Field(
        timedelta(minutes=5),
        description="How often the reaper looks at everything anew although nothing told it to. Default: 5m.",
    )
    mass_expiry_share: Share = Field(
        default_factory=_share_that_holds,
        description="If more than this share of all sessions looks dead at once, the reaper ends none of them until "
        "that is confirmed; 1 never holds. Default: 0.5 with --records kubernetes, else 1.",
    )
    mass_expiry_minimum: Count = Field(
        20, description="So many sessions must look dead at once for --mass-expiry-share to count. Default: 20."
    )
    metrics_listen: MetricsAddress = Field(
        None, description="Where the reaper serves /metrics, /healthz and /readyz over HTTP. Default: nowhere."
    )
    leader_election: bool = Field(
        default_factory=lambda given: given.get("records") == "kubernetes",
        description="Let one of several reapers work at a time, by a Lease. Default: yes with --records kubernetes.",
    )
    log_level: LogLevel = Field("info", description="One of debug, info, warning, error. Default: info.")

    @field_validator("leader_election")
    @classmethod
    def _needs_kubernetes(cls, value: bool, given: ValidationInfo) -> bool:
        if value and given.data.get("records") != "kubernetes":
            raise ValueError("it needs --records kubernetes; reapers of files need no leader")
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
        """Options come before these, and the YAML file is what ``init_settings`` holds."""
        return env_settings, init_settings


class ServeSettings(ReapSettings):
    """The settings of a gateway process and of what it starts beside itself."""

    listen: ListenAddress = Field(
        "127.0.0.1:15002",
        description="Where clients connect; port 0 lets the system choose. Default: 127.0.0.1:15002.",
    )
    backend: Backends = Field(
        (),
        description="A Spark Connect server behind the gateway; may be repeated. Default: a local Spark is "
        "started, and stopped with the gateway.",
    )
    session_idle_timeout: Duration = Field(
        timedelta(minutes=60),
        description="A session without a request or a running operation for so long is ended. Default: 60m.",
    )
    reaper: bool = Field(
        default_factory=lambda: "KUBERNETES_SERVICE_HOST" not in os.environ,
        description="Run the reaper beside the gateway. Default: yes, but not in Kubernetes.",
    )
    writable_workspace: Names = Field(
        (),
        description="A workspace beside the temporary one in which CREATE TABLE ... AS and DROP TABLE may write; "
        "may be repeated. Default: none.",
    )
    max_session_tables: Limit = Field(None, description="Temporary tables of a session. Default: no limit.")
    max_session_bytes: SizeLimit = Field(
        None, description="Bytes of all temporary tables of a session, such as 10GiB. Default: no limit."
    )
    max_principal_tables: Limit = Field(
        None, description="Temporary tables of a principal in all its sessions together. Default: no limit."
    )
    max_principal_bytes: SizeLimit = Field(
        None,
        description="Bytes of all temporary tables of a principal in all its sessions together. Default: no limit.",
    )
    detached_timeout: Duration = Field(
        timedelta(minutes=5),
        description="How long a statement that Lodge answers runs on after its client went away. Default: 5m.",
    )
    impersonation: bool = Field(
        False,
        description="Give each principal's session locations to the OS user of its name; its statements run on the "
        "backend that --principal-backend names, which must run as that user. Lodge must run as root. Default: no.",
    )
    principal_backend: PrincipalBackends = Field(
        {},
        description="The backend of one principal's statements, such as ada=sc://127.0.0.1:15003; may be repeated. "
        "Default: all principals use the backends of --backend.",
    )
    log_query_text: bool = Field(False, description="Let the text of statements stand in the log. Default: no.")
    max_message_bytes: MessageSize = Field(
        ByteSize(128 * 1024 * 1024),
        description="The largest message taken from a client, such as 64MiB. Default: 128MiB.",
    )
    pod_name: PodText = Field(None, description="The name of the gateway's pod, for the reaper. Default: none.")
    pod_uid: PodText = Field(None, description="The uid of the gateway's pod, for the reaper. Default: none.")
    node_name: PodText = Field(None, description="The node of the gateway's pod, for the reaper. Default: none.")
    spark_driver_memory: Memory = Field("2g", description="Memory of the local Spark, such as 512m or 4g. Default: 2g.")


Settings = TypeVar("Settings", bound=ReapSettings)


class SettingsOptions(Generic[Settings]):
    """The options of a settings model on the parser of one command.

    Args:
        model: Which settings.
        parser: Gets an option for each field, and ``--config``.
    """

    def __init__(self, model: type[Settings], parser: argparse.ArgumentParser) -> None:
        self._model = model
        parser.add_argument(
            "--config",
            metavar="FILE",
            default=os.environ.get(CONFIG_VARIABLE),
            help=f"A YAML file (or {CONFIG_VARIABLE}); its keys are the names of these options. Each option is also "
            f"a variable, such as {ENVIRONMENT_PREFIX}LOG_LEVEL. Options come before variables, variables before "
            "the file.",
        )
        self._source = CliSettingsSource[Any](
            model, root_parser=parser, add_argument_method=self._add_argument, cli_avoid_json=True
        )

    def read(self, arguments: argparse.Namespace) -> Settings:
        """Brings options, environment and file together.

        Raises: SettingError, see guarantee 2.
        """
        model = self._model
        options = {key: value for key, value in vars(arguments).items() if key in model.model_fields}
        from_file = {} if arguments.config is None else _read_file(Path(arguments.config), model)
        try:
            return CliApp.run(model, cli_args=options, cli_settings_source=self._source, **from_file)
        except ValidationError as error:
            causes = (problem for problem in error.errors() if problem["type"] != _FOLLOWS_FROM_ANOTHER)
            raise SettingError("\n".join(map(_explained, causes))) from None

    def _add_argument(self, parser: Any, *names: str, **keywords: Any) -> Any:
        field = self._model.model_fields[keywords["dest"]]
        keywords["help"] = (field.description or "").replace("%", "%%")
        if "metavar" in keywords:
            keywords["metavar"] = next(item.text for item in field.metadata if isinstance(item, Metavar))
        return parser.add_argument(*names, **keywords)


def _read_file(path: Path, model: type[ReapSettings]) -> Mapping[str, Any]:
    try:
        content = YamlConfigSettingsSource(model, yaml_file=_existing(path)).yaml_data
    except OSError as error:
        raise SettingError(f"config cannot be [{path}]: {error.strerror}. Give a YAML file that exists.") from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"config cannot be [{path}]: it is not YAML: {reason}.") from None
    except (AttributeError, TypeError, ValueError):  # the library meets a list, a text, or a key that is a number
        raise SettingError(f"config cannot be [{path}]: it must be lines of KEY: VALUE.") from None
    return _known(content, path, model)


def _existing(path: Path) -> Path:
    """Raises: OSError; the library takes a file that is missing for an empty one."""
    path.open("rb").close()
    return path


def _known(content: Mapping[Any, Any], path: Path, model: type[ReapSettings]) -> Mapping[str, Any]:
    known: dict[str, Any] = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in ServeSettings.model_fields:
            names = ", ".join(sorted(ServeSettings.model_fields))
            raise SettingError(f"The key [{key}] in [{path}] is unknown. Known keys are: {names}.")
        if name in known:
            raise SettingError(f"The key [{name}] stands twice in [{path}]. Remove one of them.")
        known[name] = value
    return {name: value for name, value in known.items() if name in model.model_fields}


def _explained(problem: ErrorDetails) -> str:
    key = str(problem["loc"][0])
    reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
    option = key.replace("_", "-")
    return (
        f"{key} cannot be [{_without_secrets(str(problem['input']))}]: {reason}. "
        f"Set it with --{option}, {ENVIRONMENT_PREFIX}{key.upper()} or {key} in the --config file."
    )


def _without_secrets(text: str) -> str:
    """Cuts what connection strings carry beside the address: a user before it, parameters after it."""
    return re.sub(r"//[^/@]*@", "//***@", re.sub(r";.*", ";***", text, flags=re.DOTALL))
