"""A container as a Kubernetes node runs it with strict settings.

The root file system is read-only. ``/tmp``, the working directory, is an empty file system. The processes have no
capabilities and see no network except for the loopback interface. The kernel ends all of them with the first one.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.processes import DIES_WITH_PARENT

FILES = "/mnt"
"""The directory of the container with the files of the test. It is read-only."""

_ENTER = f"""
set -e
root=$1 files=$2
shift 2
mount --bind "$root" "$root"
cd "$root"
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t proc proc proc
mount --rbind /dev dev
mount --bind "$files" .{FILES}
mount -o remount,bind,ro .{FILES}
mount -o remount,bind,ro "$root"
hostname localhost
ip link set lo up
exec env --ignore-environment "$@"
"""


class Sandbox:
    """Runs commands in containers of a mounted image.

    Args:
        root: The mounted image.
        environment: The environment of the image, as ``NAME=value``.
        files: A directory that the containers see as `FILES`.
    """

    def __init__(self, root: Path, environment: Sequence[str], files: Path) -> None:
        self.root = root
        self._environment = environment
        self._files = files

    def run(
        self, *command: str, user: str = "185", seconds: float = 120, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in a new container.

        Args:
            command: The command.
            user: The user and group.
            seconds: The longest time.
            environment: Variables in addition to those of the image.
        """
        namespaces = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
        rights = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        rights += ["--bounding-set=-all", "--no-new-privs"]
        variables = [*self._environment, *(f"{name}={value}" for name, value in environment.items())]
        enter = ["sh", "-c", _ENTER, "enter", str(self.root), str(self._files), *variables]
        return subprocess.run(
            [
                *DIES_WITH_PARENT,
                *namespaces,
                *enter,
                "/usr/sbin/chroot",
                str(self.root),
                *rights,
                "env",
                "--chdir=/tmp",
                *command,
            ],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def output(self, *command: str, user: str = "185") -> str:
        """Return the output of a command that succeeds."""
        result = self.run(*command, user=user)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout
