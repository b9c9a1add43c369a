"""A build of the image with buildah, as root, on a Debian base from mmdebstrap.

It proves that the Containerfile works, even without access to a registry of base images. The base and the layers are
kept in the user's cache directory, beside the programs of the test cluster.
"""

import configparser
import fcntl
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.cluster.builds import cache_directory

REPOSITORY = Path(__file__).parents[2]
TOOLS = ("mmdebstrap", "buildah")
BUILD_SECONDS = 600
RUN_SECONDS = 120

_SUITE = "bookworm"
_PACKAGES = ("ca-certificates", "python3", "python3-venv")
_BASE = "localhost/lodge-test-base:1"
_STAGE = "localhost/lodge-test-build:1"
_IMAGE = "localhost/lodge-test:1"


class ImageError(Exception):
    """A command failed. The message has the end of its output."""


def install_tools() -> str:
    """Install the build tools if they are missing.

    Returns:
        The reason why they are missing; empty if they are installed.
    """
    if all(map(shutil.which, TOOLS)) and os.geteuid() == 0:
        return ""
    reason = f"The image is not built. The build needs {' and '.join(TOOLS)}, on Debian or Ubuntu as root."
    installer = shutil.which("apt-get")
    if os.geteuid() != 0 or installer is None:
        return reason
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *TOOLS]):
        result = subprocess.run(
            [installer, *command], env=quiet, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        if result.returncode:
            return f"{reason} apt-get says: {result.stderr.strip()[-400:]}"
    return ""


class Builder:
    """A context manager of builds with an image store of its own.

    One test run uses the store at a time.

    Args:
        directory: A directory for files that only a build needs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cache = cache_directory().with_name("image")
        self._temporary = self._cache / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self._lock = (self._cache / ".lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._buildah("rm", "--all")  # left by a killed run
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def build(self) -> None:
        """Build the image.

        Raises:
            ImageError: The build failed.
        """
        if not self._has(_BASE):
            self._build_base()
        common = [
            "--isolation=chroot",
            "--layers",
            f"--build-arg=BASE={_BASE}",
            *self._pip_options(),
            "--file=Containerfile",
        ]
        # The tag keeps the first stage from the removal below.
        for options in (["--target=build", f"--tag={_STAGE}"], [f"--tag={_IMAGE}"]):
            self._buildah("build-using-dockerfile", *common, *options, ".", seconds=BUILD_SECONDS)
        self._buildah("rmi", "--prune")

    @contextmanager
    def container(self) -> Iterator["Container"]:
        """Create a container of the built image, and remove it at the end of the context."""
        name = self._buildah("from", _IMAGE).strip()
        try:
            yield Container(self, name)
        finally:
            self._buildah("rm", name)

    def run(self, container: str, user: str, command: Sequence[str]) -> str:
        options = ["--isolation=chroot", f"--user={user}"] if user else ["--isolation=chroot"]
        return self._buildah("run", *options, container, "--", *command)

    def inspect(self, template: str) -> str:
        """Return a property of the image, selected by a Go template."""
        return self._buildah("inspect", "--type=image", f"--format={template}", _IMAGE).strip()

    def _build_base(self) -> None:
        archive = self._cache / f"{_SUITE}-{'-'.join(_PACKAGES)}.tar"
        if not archive.exists():
            half_made = archive.with_suffix(".new.tar")
            command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", _SUITE, str(half_made)]
            _run_command(command, self._cache, self._temporary, BUILD_SECONDS)
            half_made.replace(archive)
        context = self._directory / "base"
        context.mkdir()
        (context / "Containerfile").write_text(f"FROM scratch\nADD {archive.name} /\n")
        (context / archive.name).hardlink_to(archive)
        self._buildah("build-using-dockerfile", "--isolation=chroot", f"--tag={_BASE}", str(context))

    def _has(self, image: str) -> bool:
        return image in self._buildah("images", "--format={{.Name}}:{{.Tag}}").split()

    def _pip_options(self) -> Sequence[str]:
        """Pass pip's configuration of this machine to the build."""
        settings = configparser.ConfigParser(interpolation=None)
        settings.read_string(_pip_settings())
        mounts = {path for section in settings.values() for path in section.values() if Path(path).is_absolute()}
        file = self._directory / "pip.conf"
        with file.open("w") as output:
            settings.write(output)
        volumes = [f"--volume={path}:{path}:ro" for path in sorted(mounts) if Path(path).exists()]
        return [f"--secret=id=pip.conf,src={file}", *volumes]

    def _buildah(self, command: str, *arguments: str, seconds: int = RUN_SECONDS) -> str:
        store = [f"--root={self._cache / 'store'}", f"--runroot={self._cache / 'run'}", "--storage-driver=overlay"]
        return _run_command(["buildah", *store, command, *arguments], REPOSITORY, self._temporary, seconds)


class Container:
    """A container that runs one command."""

    def __init__(self, builder: Builder, name: str) -> None:
        self._builder = builder
        self._name = name

    def run(self, *command: str, user: str = "") -> str:
        """Run a command as a user, and return its output.

        Raises:
            ImageError: The command failed.
        """
        return self._builder.run(self._name, user, command)


def _run_command(command: Sequence[str], directory: Path, temporary: Path, seconds: int) -> str:
    result = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if result.returncode:
        raise ImageError(f"{' '.join(command)}:\n{(result.stdout + result.stderr)[-4000:]}")
    return result.stdout


def _pip_settings() -> str:
    """Return pip's settings on this machine as a configuration file.

    The command prints lines such as ``global.cert='/etc/…'`` and ``:env:.timeout='60'``.
    """
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=RUN_SECONDS, check=True
    ).stdout
    settings = configparser.ConfigParser(interpolation=None)
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        section = "global" if section == ":env:" else section
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, key, value.strip("'\"").replace("\\n", "\n\t"))
    text = io.StringIO()
    settings.write(text)
    return text.getvalue()
