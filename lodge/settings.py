"""The settings of ``lodge serve`` and ``lodge reap``.

Each setting can be given in three ways. For the field ``lease_duration``, these are, in order of precedence:

1. the option ``--lease-duration``,
2. the environment variable ``LODGE_LEASE_DURATION``,
3. the key ``lease_duration`` or ``lease-duration`` in the YAML file of the option ``--config``.

The first of these that contains the setting determines its complete value. Lists and mappings from different sources
are not merged. The help text of an option is the description of its field.

Guarantees:

1. An unknown option or YAML key stops the start. An unknown environment variable is ignored, because Kubernetes sets
   variables with the prefix ``LODGE_`` if a service has the name ``lodge``.
2. A single SettingError lists all invalid settings. The error message has one line for each of them, which contains
   the key, the value and what to do. Parts of a value that may be secret are masked.
3. One file can be used for both commands. ``lodge reap`` ignores the keys that only ``lodge serve`` has.
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

from lodge import setting_types
from lodge.authentication_settings import AuthenticationMethods
from lodge.command_errors import SettingError
from lodge.tls_settings import TlsMapping, TlsSettings, check_client_certificates

ENVIRONMENT_PREFIX = "LODGE_"
CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"
_LARGEST_MESSAGE_BYTES = 2**31 - 1
_MIB = 1024 * 1024
_LONGEST_SHOWN_VALUE = 200
_FOLLOWS_FROM_ANOTHER = "default_factory_not_called"

LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], setting_types.LowerCase, setting_types.Metavar("LEVEL")
]
Limit = Annotated[int | None, Field(ge=0), setting_types.Metavar("NUMBER")]
SizeLimit = Annotated[ByteSize | None, Field(ge=0), setting_types.Metavar("BYTES")]
MemorySize = Annotated[ByteSize, Field(gt=0), setting_types.Metavar("BYTES")]
MessageSize = Annotated[ByteSize, Field(gt=0, le=_LARGEST_MESSAGE_BYTES), setting_types.Metavar("BYTES")]
RecordStore = Annotated[Literal["files", "kubernetes"], setting_types.LowerCase, setting_types.Metavar("STORE")]
Namespace = Annotated[setting_types.ObjectName | None, setting_types.Metavar("NAMESPACE")]
Share = Annotated[float, Field(gt=0, le=1), setting_types.Metavar("SHARE")]
Count = Annotated[int, Field(ge=1), setting_types.Metavar("NUMBER")]
MetricsAddress = Annotated[setting_types.ListenAddress | None, setting_types.Metavar("HOST:PORT")]
PodText = Annotated[str | None, setting_types.Metavar("TEXT")]


def _default_mass_expiry_share(settings: Mapping[str, Any]) -> float:
    """Return 1 if records are stored in files, and otherwise 0.5.

    With records in files there is often only one gateway, and its death must not count as a mass expiry.
    """
    return 0.5 if settings.get("records") == "kubernetes" else 1.0


class ReapSettings(BaseSettings):
    """The settings of ``lodge reap``.

    All gateways and reapers of a workspace need the same values.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        extra="forbid",
        frozen=True,
        cli_kebab_case=True,
        cli_implicit_flags="dual",
    )

    workspace: setting_types.WorkspaceUris = Field(
        {},
        description="A workspace, such as dfs=file:///data or lake=s3://bucket/prefix. May be repeated. If several "
        "workspace names match the beginning of a table name, the longest one is used. Default: dfs for the current "
        "directory, and dfs.tmp for a private directory for temporary tables below $XDG_STATE_HOME or ~/.local/state.",
    )
    default_temporary_workspace: Annotated[str, setting_types.Metavar("NAME")] = Field(
        "dfs.tmp", description="The workspace in which temporary tables are stored. Default: dfs.tmp."
    )
    lease_duration: setting_types.Duration = Field(
        timedelta(seconds=15),
        description="A gateway that has not renewed its lease for this time is considered lost. All gateways and "
        "reapers of a workspace need the same value. Default: 15s.",
    )
    grace_period: setting_types.Duration = Field(
        timedelta(seconds=60),
        description="How long the reaper must observe that a session or file is abandoned before it removes it. "
        "Default: 60s.",
    )
    records: RecordStore = Field(
        "files",
        description="Where session records and leases are stored. With files, they are files in the default temporary "
        "workspace. With kubernetes, they are ConnectSession and Lease objects. Default: files.",
    )
    kubeconfig: Annotated[Path | None, setting_types.Metavar("FILE")] = Field(
        None,
        description="The kubeconfig file for access to Kubernetes. Default: the pod's service account; outside a pod, "
        "the file in KUBECONFIG or ~/.kube/config.",
    )
    namespace: Namespace = Field(
        None,
        description="The Kubernetes namespace of session records and leases. Default: the namespace of the pod or of "
        "the kubeconfig.",
    )
    instance: setting_types.InstanceName = Field(
        "lodge",
        description="The name of this Lodge installation in the namespace. The names of its Kubernetes objects begin "
        "with this name. Default: lodge.",
    )
    removals: Count = Field(
        4, description="The maximum number of session locations that the reaper removes at the same time. Default: 4."
    )
    resync_period: setting_types.Duration = Field(
        timedelta(minutes=5),
        description="How often the reaper lists all session records in addition to watching them. Default: 5m.",
    )
    mass_expiry_share: Share = Field(
        default_factory=_default_mass_expiry_share,
        description="If more than this share of all sessions appears to be dead at the same time, the reaper does not "
        "end any of them until a person confirms it. The value 1 disables this check. Default: 0.5 with --records "
        "kubernetes, otherwise 1.",
    )
    mass_expiry_minimum: Count = Field(
        20,
        description="The minimum number of dead sessions for --mass-expiry-share to apply. Default: 20.",
    )
    metrics_listen: MetricsAddress = Field(
        None,
        description="The address at which the gateway or the reaper serves /metrics, /healthz and /readyz over HTTP. "
        "Default: none.",
    )
    leader_election: bool = Field(
        default_factory=lambda settings: settings.get("records") == "kubernetes",
        description="If several reapers run, elect a leader with a Kubernetes Lease. Only the leader removes "
        "anything. Default: yes with --records kubernetes.",
    )
    audit_log: setting_types.AuditDestination = Field(
        None,
        description="The file to which the audit log is appended. With the value -, the audit log goes to standard "
        "output. With the value none, there is no audit log. Default: - for a gateway with an authentication method, "
        "otherwise none.",
    )
    backend: setting_types.Backends = Field(
        (),
        description="The address of a Spark Connect server that runs the sessions, such as "
        "sc://spark:15002, or sc://spark:15002/;use_ssl=true for a server with TLS. May be repeated. Default: the "
        "gateway starts and stops a local Spark server.",
    )
    principal_backend: setting_types.PrincipalBackends = Field(
        {},
        description="The backend that runs the sessions of one principal, such as ada=sc://127.0.0.1:15003. May be "
        "repeated. Default: all principals use the backends of --backend.",
    )
    backend_token_file: Annotated[Path | None, setting_types.Metavar("FILE")] = Field(
        None,
        description="A file with the token that Lodge sends to all backends, or with one line for each backend that "
        "contains its address and its token. The token is the value of spark.connect.authenticate.token of the "
        "backend. Lodge reads the file again when it changes. The reaper sends tokens only to the addresses of "
        "--backend and --principal-backend. Default: none.",
    )
    backend_ca: Annotated[Path | None, setting_types.Metavar("FILE")] = Field(
        None,
        description="A PEM file with the certificate authorities that sign the certificates of backends with TLS. "
        "Lodge reads the file again when it changes. Default: the certificate authorities that gRPC trusts.",
    )
    backend_certificate: Annotated[Path | None, setting_types.Metavar("FILE")] = Field(
        None,
        description="A PEM file with the certificate that Lodge presents to backends with TLS. It needs --backend-key. "
        "Default: none.",
    )
    backend_key: Annotated[Path | None, setting_types.Metavar("FILE")] = Field(
        None,
        description="A PEM file with the private key of --backend-certificate, without a password. Default: none.",
        validate_default=True,
    )
    log_level: LogLevel = Field(
        "info", description="The lowest level of log events: debug, info, warning or error. Default: info."
    )

    @field_validator("leader_election")
    @classmethod
    def _check_leader_election(cls, value: bool, settings: ValidationInfo) -> bool:
        if value and settings.data.get("records") != "kubernetes":
            raise ValueError("it needs --records kubernetes; with records in files, all reapers may act")
        return value

    @field_validator("backend_key")
    @classmethod
    def _check_backend_key(cls, value: Path | None, settings: ValidationInfo) -> Path | None:
        if "backend_certificate" in settings.data and (value is None) != (settings.data["backend_certificate"] is None):
            raise ValueError("a certificate and its key belong together; set backend_certificate and backend_key")
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
        """Return the sources of settings other than the options.

        The YAML file is passed as ``init_settings``.
        """
        return env_settings, init_settings


class ServeSettings(ReapSettings):
    """The settings of ``lodge serve``, including its reaper and its local Spark."""

    listen: setting_types.ListenAddress = Field(
        "127.0.0.1:15002",
        description="The address for clients. With port 0, the system chooses a port. Default: 127.0.0.1:15002.",
    )
    session_idle_timeout: setting_types.Duration = Field(
        timedelta(minutes=60),
        description="A session ends after this time without a request or a running operation. If its backend does "
        "not respond, it ends after twice this time. Default: 60m.",
    )
    stall_limit: setting_types.Duration = Field(
        timedelta(seconds=10),
        ge=timedelta(seconds=2),
        description="A gateway that does not respond for this time is killed and restarted at the same address. Its "
        "sessions and their temporary tables remain. Time in which the machine gives it no processor counts only after "
        "twice the lease duration, because its lease would lapse then. At least 2s. Default: 10s.",
    )
    drain_timeout: setting_types.Duration = Field(
        timedelta(seconds=45),
        description="A gateway that stops waits at most for this time until running requests have finished or have "
        "moved to other gateways. With its own Spark, it waits for at most 10 seconds. Default: 45s.",
    )
    reaper: bool = Field(
        default_factory=lambda: "KUBERNETES_SERVICE_HOST" not in os.environ,
        description="Run a reaper as a child process. Default: yes, but no in Kubernetes.",
    )
    reaper_metrics_listen: MetricsAddress = Field(
        None,
        description="The address at which the reaper process of `lodge serve` serves /metrics, /healthz and /readyz "
        "over HTTP. Default: none.",
    )
    writable_workspace: setting_types.Names = Field(
        (),
        description="An additional workspace in which CREATE TABLE ... AS and DROP TABLE are permitted. May be "
        "repeated. Default: none.",
    )
    authentication: AuthenticationMethods = Field(
        (),
        description="The methods that authenticate clients, in the order in which they are tried, such as [{kind: "
        "tokens, file: /etc/lodge/tokens.yaml}]. Default: none; the gateway then trusts all clients and listens only "
        "on the loopback interface.",
    )
    allow_unauthenticated: bool = Field(
        False,
        description="Without an authentication method, listen on an address that other hosts can reach. Everybody who "
        "reaches the address can act as any user. Default: no.",
    )
    admins: setting_types.Names = Field(
        (),
        description="An administrator: a principal such as ops, or a group such as group:admins. Administrators list "
        "and close all sessions and drop all permanent tables. Needs an authentication method. May be repeated. "
        "Default: none.",
    )
    max_session_tables: Limit = Field(
        None, description="The maximum number of temporary tables in a session. Default: no limit."
    )
    max_session_bytes: SizeLimit = Field(
        None,
        description="The maximum size of all temporary tables of a session together, such as 10GiB. Default: no limit.",
    )
    max_principal_tables: Limit = Field(
        None,
        description="The maximum number of temporary tables in all sessions of a principal together. Default: no "
        "limit.",
    )
    max_principal_bytes: SizeLimit = Field(
        None,
        description="The maximum size of all temporary tables in all sessions of a principal together. Default: no "
        "limit.",
    )
    max_sessions: Count = Field(
        10_000, description="The maximum number of sessions that the gateway serves. Default: 10000."
    )
    max_principal_sessions: Count = Field(
        1_000, description="The maximum number of sessions of one principal. Default: 1000."
    )
    new_sessions_per_minute: Count = Field(
        3_000, description="The maximum number of sessions that start in one minute. Default: 3000."
    )
    principal_new_sessions_per_minute: Count = Field(
        600, description="The maximum number of sessions of one principal that start in one minute. Default: 600."
    )
    max_statements: Count = Field(
        1_000, description="The maximum number of statements that run at the same time. Default: 1000."
    )
    max_principal_statements: Count = Field(
        200,
        description="The maximum number of statements of one principal that run at the same time. Default: 200.",
    )
    max_requests_in_flight: Count = Field(
        4_000,
        description="The maximum number of open requests. A request is open until its stream of responses ends. "
        "Default: 4000.",
    )
    max_principal_requests_in_flight: Count = Field(
        1_000, description="The maximum number of open requests of one principal. Default: 1000."
    )
    principal_requests_per_second: Count = Field(
        500,
        description="The maximum number of requests that one principal starts in one second. Further requests wait for "
        "the next second, and are refused if it has no room either. Default: 500.",
    )
    max_request_bytes_in_flight: MemorySize = Field(
        ByteSize(384 * _MIB),
        description="The maximum size of all requests in memory together. A request that a client sends slowly counts "
        "as --max-message-bytes. Default: 384MiB.",
    )
    max_principal_request_bytes_in_flight: MemorySize = Field(
        ByteSize(256 * _MIB),
        description="The maximum size of all requests of one principal in memory together. Default: 256MiB.",
    )
    max_response_bytes_in_flight: MemorySize = Field(
        ByteSize(384 * _MIB),
        description="The maximum size of all responses in memory together. Above half of it, the gateway reads from "
        "the backends only as fast as clients read. Default: 384MiB.",
    )
    max_principal_response_bytes_in_flight: MemorySize = Field(
        ByteSize(192 * _MIB),
        description="The maximum size of all responses to one principal in memory together. Default: 192MiB.",
    )
    failed_logins_per_minute: Count = Field(
        60,
        description="The number of failed logins from one network address in one minute, above which further "
        "logins from this address are delayed. Default: 60.",
    )
    request_timeout: setting_types.Duration = Field(
        timedelta(seconds=60),
        description="How long a client may take to send one message of a request. Default: 60s.",
    )
    detached_timeout: setting_types.Duration = Field(
        timedelta(minutes=5),
        description="How long a Lodge statement may continue after its client has disconnected. Default: 5m.",
    )
    impersonation: bool = Field(
        False,
        description="Make the OS user with the name of the principal the owner of the principal's session locations. "
        "Each principal needs a --principal-backend that runs as this user. Lodge must run as root. Default: no.",
    )
    log_query_text: bool = Field(
        False, description="Include the text of statements in the log and in the audit log. Default: no."
    )
    spark_readers: bool = Field(
        True,
        description="Let Spark's own readers read raw Parquet and ORC files whose schema does not drift. Default: yes.",
    )
    max_message_bytes: MessageSize = Field(
        ByteSize(128 * _MIB),
        description="The maximum size of a message that the gateway accepts, such as 64MiB. Default: 128MiB.",
    )
    max_connections: Count = Field(
        4000,
        description="The maximum number of connections of clients to each port. From about this number, the gateway "
        "closes new connections. Default: 4000.",
    )
    max_connection_age: setting_types.Duration = Field(
        timedelta(hours=12),
        description="A connection that is older than this accepts no new requests. Its running requests may continue "
        "for 10 minutes. Clients connect again by themselves. Default: 12h.",
    )
    connection_idle_timeout: setting_types.Duration = Field(
        timedelta(minutes=30),
        description="A connection without a running request is closed after this time. Clients connect again by "
        "themselves. Default: 30m.",
    )
    backend_keepalive: setting_types.Duration = Field(
        timedelta(seconds=15),
        description="After this time without data from a backend, Lodge sends a ping. If the backend does not answer "
        "within 12 seconds, Lodge closes the connection and reattaches to its statements. Use 330s for Spark before "
        "version 4.3, which closes connections with frequent pings. Default: 15s.",
    )
    tls: TlsMapping = Field(
        None,
        description="The files for TLS connections of clients, such as {certificate: /etc/lodge/tls.crt, key: "
        "/etc/lodge/tls.key}. The key client_ca is the file with the certificate authorities that sign client "
        "certificates. If clients may use other credentials as well, clients with certificates connect to the address "
        "client_certificate_listen (default: the next port after --listen). Lodge reads the files again when they "
        "change. Default: no TLS.",
        validate_default=True,
    )
    max_plan_bytes: MemorySize = Field(
        ByteSize(64 * _MIB),
        description="The maximum size of a compressed plan after decompression. Default: 64MiB.",
    )
    pod_name: PodText = Field(
        None, description="The name of the gateway's pod. The reaper uses it to check the pod. Default: none."
    )
    pod_uid: PodText = Field(
        None, description="The UID of the gateway's pod. The reaper uses it to check the pod. Default: none."
    )
    node_name: PodText = Field(
        None, description="The name of the pod's node. The reaper uses it to check the node. Default: none."
    )
    spark_driver_memory: setting_types.Memory = Field(
        "2g", description="The memory of the local Spark server, such as 512m or 4g. Default: 2g."
    )

    @field_validator("backend_token_file")
    @classmethod
    def _check_backend_token_file(cls, value: Path | None, settings: ValidationInfo) -> Path | None:
        known = settings.data.keys() >= {"backend", "principal_backend"}  # otherwise, their own errors are reported
        if value is not None and known and not (settings.data["backend"] or settings.data["principal_backend"]):
            raise ValueError("it needs --backend or --principal-backend; the local Spark has a token of its own")
        return value

    @field_validator("admins")
    @classmethod
    def _check_admins(cls, value: tuple[str, ...], settings: ValidationInfo) -> tuple[str, ...]:
        if any(not name.removeprefix("group:") for name in value):
            raise ValueError("it must be a principal such as ops, or a group such as group:admins")
        if value and settings.data.get("authentication") == ():
            raise ValueError("it needs an authentication method; configure one with the setting authentication")
        return value

    @field_validator("tls")
    @classmethod
    def _check_tls(cls, value: TlsSettings | None, settings: ValidationInfo) -> TlsSettings | None:
        if "authentication" in settings.data:  # otherwise, its own error is reported
            check_client_certificates(value, {method.kind for method in settings.data["authentication"]})
        return value


Settings = TypeVar("Settings", bound=ReapSettings)


class SettingsOptions(Generic[Settings]):
    """The command-line options of one command.

    There is one option for each field of the settings class.

    Args:
        model: The settings class of the command.
        parser: The argument parser of the command. The options and ``--config`` are added to this parser.
    """

    def __init__(self, model: type[Settings], parser: argparse.ArgumentParser) -> None:
        self._model = model
        parser.add_argument(
            "--config",
            metavar="FILE",
            default=os.environ.get(CONFIG_VARIABLE),
            help=f"A YAML file whose keys are the names of these options. The variable {CONFIG_VARIABLE} can also "
            "contain the path of the file. Each option can also be set with an environment variable, such as "
            f"{ENVIRONMENT_PREFIX}LOG_LEVEL. Options override variables, and variables override the file.",
        )
        self._source = CliSettingsSource[Any](
            model, root_parser=parser, add_argument_method=self._add_argument, cli_avoid_json=True
        )

    def read(self, arguments: argparse.Namespace) -> Settings:
        """Read the settings from the options, the environment and the file.

        Args:
            arguments: The parsed command line.

        Returns:
            The settings.

        Raises:
            SettingError: If a setting is invalid. The error message follows guarantee 2.
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
            keywords["metavar"] = next(item.text for item in field.metadata if isinstance(item, setting_types.Metavar))
        return parser.add_argument(*names, **keywords)


def _read_file(path: Path, model: type[ReapSettings]) -> Mapping[str, Any]:
    try:
        content = YamlConfigSettingsSource(model, yaml_file=_require(path)).yaml_data
    except OSError as error:
        raise SettingError(
            f"The configuration file [{path}] cannot be read: {error.strerror}. Give the path of a YAML file with "
            f"--config or {CONFIG_VARIABLE}."
        ) from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"The configuration file [{path}] is not valid YAML: {reason}.") from None
    except RecursionError:
        raise SettingError(f"The configuration file [{path}] is nested too deeply.") from None
    except (AttributeError, TypeError, ValueError):  # the content is a list or a string, or a key is a number
        raise SettingError(
            f"The configuration file [{path}] must be a mapping from settings to values, with lines such as "
            "log_level: info."
        ) from None
    return _select_keys(content, path, model)


def _require(path: Path) -> Path:
    """Return the path of a configuration file if the file can be opened.

    The check is needed because pydantic treats a missing file as an empty file.

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
            raise SettingError(
                f"The configuration file [{path}] contains the unknown key [{key}]. The known keys are: {names}."
            )
        if name in known:
            raise SettingError(
                f"The configuration file [{path}] contains the key [{name}] more than once. Remove the duplicates."
            )
        known[name] = value
    return {name: value for name, value in known.items() if name in model.model_fields}


def _explain(problem: ErrorDetails) -> str:
    key = str(problem["loc"][0])
    reason = str(problem.get("ctx", {}).get("error") or problem["msg"])
    option = key.replace("_", "-")
    value = _mask_secrets(str(problem["input"]))
    shown = value if len(value) <= _LONGEST_SHOWN_VALUE else f"{value[:_LONGEST_SHOWN_VALUE]}..."
    subject = "The setting" if problem["input"] is None else f"The value [{shown}] of the setting"
    return (
        f"{subject} {key} is not valid: {reason}. "
        f"Set it with --{option}, {ENVIRONMENT_PREFIX}{key.upper()} or {key} in the --config file."
    )


def _mask_secrets(text: str) -> str:
    """Mask the parts of a connection string that may contain secrets.

    These are the user information before the address and the parameters after it.
    """
    return re.sub(r"//[^/@]*@", "//***@", re.sub(r";.*", ";***", text, flags=re.DOTALL))
