"""Finds the Java program that runs the local Spark server."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from lodge.command_errors import StartError

OLDEST_VERSION = 17
_ANSWER_SECONDS = 20
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTRUCTION = (
    f"The local Spark server needs Java {OLDEST_VERSION} or later. Install Java (on Debian: openjdk-17-jre-headless), "
    "set JAVA_HOME, or use an existing Spark Connect server with --backend."
)


def require_java() -> Path:
    """Return the ``java`` program in JAVA_HOME or, if that is not set, on the PATH.

    Raises:
        StartError: If Java is not installed, does not run, or is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None:
        raise StartError(f"Java was not found on the PATH. {_INSTRUCTION}")
    try:
        answer = subprocess.run(
            [found, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StartError(f"Java at [{found}] does not run: {error}. {_INSTRUCTION}") from None
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is None or int(version[1]) < OLDEST_VERSION:
        number = version[1] if version else "unknown"
        raise StartError(f"Java at [{found}] has the version {number}. {_INSTRUCTION}")
    return Path(found)
