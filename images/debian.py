"""Packages of Debian that builds and tests need."""

import os
import shutil
import subprocess
from collections.abc import Mapping

_SECONDS = 600


def install_packages(packages: Mapping[str, str], problem: str) -> str:
    """Install programs if they are missing.

    Args:
        packages: The package of each program, by the program's name or path.
        problem: What does not happen without them.

    Returns:
        The reason why they are missing; empty if they are installed and the user is root.
    """
    missing = [package for program, package in packages.items() if not shutil.which(program)]
    is_root = os.geteuid() == 0
    if not missing and is_root:
        return ""
    names = sorted(set(packages.values()))
    reason = f"{problem}. That needs {', '.join(names)}, on Debian or Ubuntu as root."
    installer = shutil.which("apt-get")
    if not is_root or installer is None:
        return reason
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        result = subprocess.run(
            [installer, *command], env=quiet, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if result.returncode:
            return f"{reason} apt-get says: {result.stderr.strip()[-400:]}"
    return ""
