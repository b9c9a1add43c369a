"""The command ``lodge``, which reads the settings and runs one of the subcommands.

The modules of a subcommand are imported only after the settings have been validated. Therefore, help texts and error
messages appear without delay.
"""

import argparse
import asyncio
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import NoReturn

from lodge.check_command import add_check_command, run_check_command
from lodge.command_errors import LodgeError, report
from lodge.definition_command import add_definition_command, run_definition_command
from lodge.settings import ReapSettings, ServeSettings, SettingsOptions
from lodge.token_command import add_token_command, run_token_command


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"lodge: {message}. See {self.prog} --help.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``lodge``.

    Args:
        arguments: The command-line arguments. By default, the arguments of this process.

    Returns:
        The exit status.
    """
    parser = _Parser(prog="lodge", description="A session gateway for Apache Spark Connect.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"lodge {version('spark-lodge')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    serve = _add_command(
        commands,
        "serve",
        "Run a gateway until SIGINT or SIGTERM. SIGHUP reloads workspaces and authentication methods.",
    )
    reap = _add_command(
        commands, "reap", "Run a reaper, which removes the files of ended and lost sessions, until SIGINT or SIGTERM."
    )
    add_token_command(_add_command(commands, "token", "Create, list and revoke tokens for clients."))
    add_check_command(
        _add_command(commands, "check", "Create, read and drop a temporary table at a gateway, as a client does.")
    )
    add_definition_command(
        _add_command(commands, "definition", "Bring the definition of ConnectSession in a cluster up to date.")
    )
    serve_options = SettingsOptions(ServeSettings, serve)
    reap_options = SettingsOptions(ReapSettings, reap)
    parsed = parser.parse_args(arguments)
    try:
        if parsed.command == "serve":
            return _serve(lambda: serve_options.read(parsed))
        if parsed.command == "token":
            run_token_command(parsed)
        elif parsed.command == "check":
            run_check_command(parsed)
        elif parsed.command == "definition":
            run_definition_command(parsed)
        else:
            _reap(reap_options.read(parsed))
    except LodgeError as error:
        return report(error)
    return 0


def _add_command(commands: "argparse._SubParsersAction[_Parser]", name: str, purpose: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=purpose, description=purpose, allow_abbrev=False)


def _serve(read_settings: Callable[[], ServeSettings]) -> int:
    settings = read_settings()

    from lodge.watcher import Watcher  # noqa: PLC0415

    return Watcher(settings, read_settings).run()


def _reap(settings: ReapSettings) -> None:
    from lodge.workspace_settings import workspaces_from  # noqa: PLC0415

    workspaces = workspaces_from(settings)

    from lodge.logs import set_up_logs  # noqa: PLC0415
    from lodge.reap import reap  # noqa: PLC0415

    output = set_up_logs(settings.log_level)
    asyncio.run(reap(settings, workspaces, output))
