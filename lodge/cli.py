"""The ``lodge`` command."""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import click

from lodge.logs import set_up_logs
from lodge.settings import SettingError, Settings
from workspace.workspaces import Workspaces, WorkspaceSettingError

_Command = Callable[..., None]

_SHARED = [
    click.option("--config", type=click.Path(path_type=Path), help="YAML file; its keys are these options."),
    click.option("--workspace", metavar="NAME=URI", multiple=True, help="A workspace, such as dfs=file:///data."),
    click.option("--default-temporary-workspace", metavar="NAME", help="Where temporary tables are. [dfs.tmp]"),
    click.option("--lease-duration", metavar="DURATION", help="Silence after which a replica is lost. [15s]"),
    click.option("--grace-period", metavar="DURATION", help="How long a thing must look dead. [60s]"),
    click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error. [info]"),
]
_SERVE = [
    click.option("--listen", metavar="HOST:PORT", help="Where clients connect. [127.0.0.1:15002]"),
    click.option(
        "--backend",
        metavar="sc://HOST:PORT",
        multiple=True,
        help="A Spark Connect server; without one, a local one is started.",
    ),
    click.option("--session-idle-timeout", metavar="DURATION", help="When an idle session ends. [60m]"),
    click.option("--reaper/--no-reaper", default=None, help="Run the reaper beside. [outside Kubernetes]"),
    click.option("--log-query-text", is_flag=True, default=None, help="Let log lines hold the text of statements."),
    click.option("--max-message-bytes", type=int, metavar="BYTES", help="Largest request. [128 MiB]"),
    click.option("--spark-driver-memory", metavar="SIZE", help="Memory of the local Spark. [2g]"),
]


def _with(options: Sequence[Callable[[_Command], _Command]]) -> Callable[[_Command], _Command]:
    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group()
@click.version_option(version("spark-lodge"), prog_name="lodge")
def lodge() -> None:
    """A session gateway for Apache Spark Connect.

    Each option is also a key of the YAML file given with --config, and an environment variable LODGE_...; the command
    line wins over the environment, which wins over the file.
    """


@lodge.command()
@_with(_SHARED)
@_with(_SERVE)
def serve(config: Path | None, **options: Any) -> None:
    """Run a gateway replica; without --backend, with a local Spark Connect server."""
    settings, workspaces = _read(config, options)
    from gateway.server import ListenError  # noqa: PLC0415 - Spark's classes take long to load
    from lodge.embedded_spark import EmbeddedSparkError  # noqa: PLC0415
    from lodge.serve import PartDiedError  # noqa: PLC0415
    from lodge.serve import serve as run  # noqa: PLC0415

    try:
        run(settings, workspaces)
    except (EmbeddedSparkError, ListenError, PartDiedError) as error:
        _stop(str(error), 1)


@lodge.command()
@_with(_SHARED)
def reap(config: Path | None, **options: Any) -> None:
    """Run the reaper as its own process."""
    settings, workspaces = _read(config, options)
    from lodge.reap import run_reaper  # noqa: PLC0415

    run_reaper(settings, workspaces.temporary.root)


def main() -> None:
    lodge(prog_name="lodge")


def _read(config: Path | None, options: dict[str, Any]) -> tuple[Settings, Workspaces]:
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    try:
        settings = Settings.read(config, given)
        set_up_logs(settings.log_level)
        return settings, settings.workspaces()
    except (SettingError, WorkspaceSettingError, OSError) as error:
        _stop(str(error), 2)


def _stop(message: str, status: int) -> NoReturn:
    click.echo(f"lodge: {message}", err=True)
    sys.exit(status)
