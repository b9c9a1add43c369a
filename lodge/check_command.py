"""The command ``lodge check``, which does what a client does, and reports whether it works.

It creates a temporary table at a gateway, reads it and drops it. It releases its session in any case, so it leaves
nothing behind.
"""

import argparse
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from lodge.command_errors import CheckError

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_EXPECTED = (1000, 999 * 1000)
_TIMEOUT_SECONDS = 240.0  # `helm test` waits for five minutes, so its log contains the reason
_CLEAN_UP_SECONDS = 10.0


def add_check_command(check: argparse.ArgumentParser) -> None:
    """Add the options of ``lodge check`` to its parser."""
    check.add_argument(
        "remote", metavar="URL", help="The URL of the gateway, such as sc://localhost:15002/;use_ssl=true."
    )
    check.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="A file with the client's token, which is sent with each request.",
    )
    check.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=_TIMEOUT_SECONDS,
        help="How long the check may take. The default is %(default)g.",
    )


def run_check_command(arguments: argparse.Namespace) -> None:
    """Run ``lodge check``, and print each step.

    Raises:
        CheckError: If a step fails, or its result is wrong.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - slow to load

    token = _read_token(arguments.token_file)
    _report(f"Connecting to {arguments.remote} ...")
    try:
        with _time_limit(arguments.timeout), _session(arguments.remote, token) as session:
            _use_table(session)
    except (PySparkException, OSError) as error:
        raise CheckError(f"The check of [{arguments.remote}] failed: {error}") from error
    _report("Released the session. The check has succeeded.")


def _read_token(file: Path | None) -> str | None:
    try:
        return None if file is None else file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CheckError(f"The token file [{file}] cannot be read: {error}") from error


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Limit the time of a block. PySpark repeats calls silently for many minutes.

    Raises:
        TimeoutError: After the given time, and again while the block cleans up.
    """

    def end(_: int, __: object) -> None:
        raise TimeoutError(f"it has not finished after {seconds:g} seconds")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, _CLEAN_UP_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _session(remote: str, token: str | None) -> "Iterator[SparkSession]":
    from pyspark.errors import PySparkException  # noqa: PLC0415 - slow to load
    from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415 - slow to load

    url = remote
    if token is not None:
        # PySpark decodes the value. It would refuse a token with `=`, and print it.
        url = f"{remote.removesuffix('/')}{'' if '/;' in remote else '/'};token={quote(token, safe='')}"
    session = SparkSession.builder.remote(url).create()
    try:
        yield session
    except BaseException:
        with suppress(PySparkException, OSError):  # the first error is the cause
            session.client.release_session()
        raise
    else:
        session.client.release_session()
    finally:
        session.client.close()


def _use_table(session: "SparkSession") -> None:
    _report(f"Connected to Spark {session.version}.")
    session.sql("create temporary table lodge_check as select id, id * 2 as twice from range(1000)").collect()
    _report("Created the temporary table [lodge_check].")
    (row,) = session.sql("select count(*), sum(twice) from lodge_check").collect()
    if tuple(row) != _EXPECTED:
        raise CheckError(f"The count and the sum of the rows are {tuple(row)}, not {_EXPECTED}.")
    _report("Read 1000 rows from the table.")
    session.sql("drop table lodge_check").collect()
    if remaining := session.sql("show temporary tables").collect():
        raise CheckError(f"The dropped table is still listed: {remaining}.")
    _report("Dropped the table.")


def _report(step: str) -> None:
    print(step, flush=True)
