"""The command ``lodge token``, which creates, lists and revokes tokens in a token file.

Guarantees:

1. A token is printed once, on standard output, and is stored nowhere. The file contains its hash. A token that cannot
   be printed is removed from the file.
2. The file is replaced atomically, so a gateway reads either the old or the new content. A new file can be read only by
   its owner. An existing file keeps its owner and mode.
3. Commands that change the same file at the same time wait for each other, so no change is lost. A command that is
   killed leaves at most one other file, ``.NAME.new``, which the next command replaces.
4. A file that a gateway could not read is never written.

Not guaranteed: Comments in the file are lost.
"""

import argparse
import fcntl
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from lodge.command_errors import SettingError, TokenError
from lodge.setting_types import Duration

if TYPE_CHECKING:
    from gateway.authentication.token_entries import TokenEntry

_NEW_FILE_MODE = 0o600
_MODE_BITS = 0o777
_HEADINGS = ("ID", "PRINCIPAL", "GROUPS", "CREATED", "EXPIRES")


def add_token_command(token: argparse.ArgumentParser) -> None:
    """Add the subcommands and options of ``lodge token`` to its parser."""
    commands = token.add_subparsers(dest="token_command", metavar="COMMAND", required=True)

    def add(name: str, purpose: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name, help=purpose, description=purpose, allow_abbrev=False
        )
        parser.add_argument("--file", metavar="FILE", type=Path, required=True, help="The token file.")
        parser.set_defaults(run=run)
        return parser

    create = add("create", "Create a token, add its hash to the file, and print it once on standard output.", _create)
    create.add_argument("--principal", metavar="NAME", required=True, help="The principal of the token.")
    create.add_argument(
        "--group", metavar="GROUP", action="append", default=[], help="A group of the principal. May be repeated."
    )
    create.add_argument(
        "--expires",
        metavar="DURATION",
        type=_duration,
        help="How long the token is valid, such as 12h or 30d. Default: until it is revoked.",
    )
    add("list", "List the tokens in the file, without the tokens themselves.", _list)
    revoke = add("revoke", "Revoke a token. Gateways refuse it within about a second.", _revoke)
    revoke.add_argument("id", metavar="ID", help="The id of the token, as shown by lodge token list.")


def run_token_command(arguments: argparse.Namespace) -> None:
    """Run a subcommand of ``lodge token``.

    Raises:
        TokenError: If the file cannot be read or changed.
        SettingError: If an option is not valid.
    """
    arguments.run(arguments)


def _create(arguments: argparse.Namespace) -> None:
    from gateway.authentication.token_entries import add_entry, new_token  # noqa: PLC0415 - slow to load

    now = datetime.now(UTC).replace(microsecond=0)
    try:
        expires = None if arguments.expires is None else now + arguments.expires
        token, entry = new_token(arguments.principal, arguments.group, expires, now=now)
    except OverflowError:
        raise SettingError("The value of --expires is too large. Omit it for a token that does not expire.") from None
    except ValueError as error:
        raise SettingError(f"{error} Set another name with --principal or --group.") from None
    with _changing(arguments.file, create=True) as entries:
        entries[:] = add_entry(entries, entry)
        entry = entries[-1]
    until = "It does not expire." if expires is None else f"It expires at {_moment(expires)}."
    print(f"Created the token [{entry.id}] of principal [{entry.principal}]. {until}", file=sys.stderr)
    try:
        print(token, flush=True)
    except OSError as error:
        with suppress(OSError):
            sys.stdout.close()  # otherwise Python tries again to write the token when it exits
        with _changing(arguments.file, create=False) as entries:
            entries[:] = [each for each in entries if each.id != entry.id]
        raise TokenError(
            f"The token [{entry.id}] cannot be printed: {error.strerror}. Therefore it has been revoked."
        ) from None


def _list(arguments: argparse.Namespace) -> None:
    rows = [
        (entry.id, entry.principal, ",".join(entry.groups) or "-", _moment(entry.created), _moment(entry.expires))
        for entry in _read(arguments.file)
    ]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for row in (_HEADINGS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _revoke(arguments: argparse.Namespace) -> None:
    with _changing(arguments.file, create=False) as entries:
        found = next((entry for entry in entries if entry.id == arguments.id), None)
        if found is None:
            raise TokenError(
                f"The token file [{arguments.file}] contains no token with the id [{arguments.id}]. See the ids with: "
                f"lodge token list --file {arguments.file}"
            )
        entries.remove(found)
    print(f"Revoked the token [{found.id}] of principal [{found.principal}].", file=sys.stderr)


def _read(file: Path) -> Sequence["TokenEntry"]:
    from gateway.authentication.token_entries import parse_token_file, read_token_file  # noqa: PLC0415 - slow to load
    from gateway.reloading.last_valid_value import SourceError  # noqa: PLC0415

    try:
        return parse_token_file(file, read_token_file(file))
    except SourceError as error:
        raise TokenError(str(error)) from None


@contextmanager
def _changing(file: Path, *, create: bool) -> Iterator[list["TokenEntry"]]:
    """Lock a token file, and replace it with the changed entries at the end of the block.

    Args:
        file: The token file. If it is a link, its target is changed.
        create: Whether to create the file if it does not exist.

    Raises:
        TokenError: If the file cannot be read or changed.
    """
    from gateway.authentication.token_entries import render_token_file  # noqa: PLC0415 - slow to load

    path = file.resolve()
    try:
        descriptor = _lock(path, create=create)
    except OSError as error:
        raise TokenError(f"The token file [{file}] cannot be opened: {error.strerror}. Check the path.") from None
    try:
        entries = list(_read(path))
        yield entries
        try:
            content = render_token_file(entries)
        except ValueError as error:
            raise TokenError(f"The token file [{file}] cannot be changed: {error}. Revoke some tokens first.") from None
        try:
            _replace(path, content, os.fstat(descriptor))
        except OSError as error:
            raise TokenError(
                f"The token file [{file}] cannot be changed: {error.strerror}. Check the permissions of its directory."
            ) from None
    finally:
        os.close(descriptor)


def _lock(path: Path, *, create: bool) -> int:
    """Return a descriptor of a file that is locked until the descriptor is closed.

    Another process may replace the file while this process waits for the lock. In this case, the new file is locked.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), _NEW_FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _replace(path: Path, content: bytes, previous: os.stat_result) -> None:
    """Replace a file atomically. The new file has the owner and mode of the previous one."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # a command that was killed may have left it
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _NEW_FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if (previous.st_uid, previous.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), previous.st_uid, previous.st_gid)
            os.fchmod(file.fileno(), previous.st_mode & _MODE_BITS)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _duration(text: str) -> timedelta:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - slow to load

    try:
        return TypeAdapter(Duration).validate_python(text)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(str(error.errors()[0].get("ctx", {}).get("error"))) from None


def _moment(moment: datetime | None) -> str:
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
