"""Builds of container images with buildah, as root and without a Docker engine.

Without a base image of the user, the base is a Debian that mmdebstrap installs, so the build needs no registry. The
base and the layers are kept in the user's cache directory, beside the programs of the test cluster.

Guarantees:

1. Two builds of the same source on the same base have the same layers. Times in a layer are constant, so an image of a
   later version shares all layers whose files have not changed.
2. One process builds at a time. Others can use containers of built images concurrently.
3. Each image contains its bill of materials, in ``/usr/share/sbom``.
4. The store keeps the images of the latest builds, so checkouts with different sources keep each other's images.
"""

import configparser
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from images import bill_of_materials
from images.build_errors import ImageError
from images.debian import install_packages
from images.source import REPOSITORY
from tests.cluster.builds import cache_directory

TARGETS = ("lodge", "lodge-spark")
TOOLS = ("mmdebstrap", "buildah")

_BUILD_SECONDS = 1200
_RUN_SECONDS = 120
_KEPT_BUILDS = 6
_EPOCH = 315619200  # 1980-01-02, the first day of zip files in all time zones
_REPRODUCIBLE = ("--layers", f"--timestamp={_EPOCH}")
_BUILD_PACKAGES = ("python3-venv",)
_COMPILE = "python3 -m compileall -qf --invalidation-mode unchecked-hash /usr/lib/python3*"
_DEBIAN = (
    "--variant=minbase",
    "--include=ca-certificates,python3,usr-is-merged",
    "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",  # otherwise, Debian merges directories with 50 MB of Perl
    # as in Debian's slim images
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    # bytecode that does not depend on the times of files
    f"""--customize-hook=chroot "$1" sh -c '{_COMPILE}'""",
    # copies of the files of this machine
    '--customize-hook=rm "$1/etc/hostname" "$1/etc/resolv.conf"',
    "bookworm",
)


@dataclass(frozen=True, slots=True)
class Bases:
    """The base images of a build.

    Attributes:
        runtime: The base of the images.
        build: The base of the build stages. It also has Python's venv module.
    """

    runtime: str
    build: str


@dataclass(frozen=True, slots=True)
class Image:
    """A built image in the store.

    Attributes:
        target: The target of the Containerfile.
        name: The name in the store.
    """

    target: str
    name: str


def install_tools() -> str:
    """Install the build tools if they are missing.

    Returns:
        The reason why they are missing; empty if they are installed.
    """
    return install_packages({tool: tool for tool in TOOLS}, "The images are not built")


class Builder:
    """A context manager of builds with an image store of its own.

    Args:
        directory: A directory for files that only a build needs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cache = cache_directory().with_name("image")
        self._temporary = self._cache / "tmp"
        self._temporary.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self._users = (self._cache / ".users").open("w")
        with suppress(BlockingIOError):
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._buildah("rm", "--all")  # left by a killed run
        fcntl.flock(self._users, fcntl.LOCK_SH)
        return self

    def __exit__(self, *_: object) -> None:
        self._users.close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Wait for the builds of other processes, and keep them waiting until the end of the context."""
        with (self._cache / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def build_bases(self, again: bool = False) -> Bases:
        """Build the Debian bases, unless they exist.

        Args:
            again: Whether to build them again, for newer packages.

        Raises:
            ImageError: The build failed.
        """
        key = hashlib.sha256("\0".join([*_DEBIAN, *_BUILD_PACKAGES]).encode()).hexdigest()[:12]
        bases = Bases(f"localhost/lodge-base:{key}", f"localhost/lodge-build-base:{key}")
        if again or not self._has(bases.runtime):
            self._build_base(bases.runtime, key)
        if again or not self._has(bases.build):
            install = f"apt-get install --yes --no-install-recommends {' '.join(_BUILD_PACKAGES)}"
            self._build_from(
                f"FROM {bases.runtime}\nRUN apt-get update && DEBIAN_FRONTEND=noninteractive {install}\n", bases.build
            )
        return bases

    def find(self, tag: str) -> Sequence[Image]:
        """Return the built images with a tag; empty unless all of them exist."""
        images = [Image(target, f"localhost/{target}:{tag}") for target in TARGETS]
        return images if all(self._has(image.name) for image in images) else ()

    def build(self, bases: Bases, tag: str, labels: Mapping[str, str]) -> Sequence[Image]:
        """Build the images.

        Args:
            bases: The base images.
            tag: The tag of the images in the store. It stands for the source.
            labels: Labels in addition to those of the Containerfile.

        Raises:
            ImageError: A build failed.
        """
        common = [
            "--isolation=chroot",
            *_REPRODUCIBLE,
            f"--build-arg=BASE={bases.runtime}",
            f"--build-arg=BUILD_BASE={bases.build}",
            "--file=Containerfile",
            f"--secret=id=pip.conf,src={self._directory / 'pip.conf'}",
        ]
        options = [f"--label={name}={value}" for name, value in labels.items()]
        contents = [Image(target, f"localhost/{target}-contents:latest") for target in TARGETS]
        # The tag of the build stage keeps its layers from the removal below. Only this stage needs the directories of
        # pip's configuration. They would be empty directories in the images.
        volumes = [f"--volume={path}:{path}:ro" for path in self._write_pip_settings()]
        self._build_target(*common, *volumes, "--target=build", "--tag=localhost/lodge-build:latest")
        for image in contents:
            self._build_target(*common, *options, f"--target={image.target}", f"--tag={image.name}")
        images = [self._add_bill(image, tag) for image in contents]
        self._remove_old_images(tag)
        return images

    def copy_bill(self, image: Image, file: Path) -> None:
        """Copy the bill of materials of an image to a file."""
        with self.mount(image) as root:
            shutil.copy(root / _bill_path(image.target), file)

    def save(self, image: Image, archive: Path, name: str) -> None:
        """Write an image to a file that ``docker load``, podman and containerd can read.

        Args:
            image: The image.
            archive: The file.
            name: The name of the image in the file, with its tag.
        """
        half_written = archive.with_suffix(".new")
        half_written.unlink(missing_ok=True)
        self._buildah("push", image.name, f"docker-archive:{half_written}:{name}", seconds=_BUILD_SECONDS)
        half_written.replace(archive)

    def push(self, image: Image, name: str) -> None:
        """Push an image to a registry."""
        self._buildah("push", image.name, f"docker://{name}", seconds=_BUILD_SECONDS)

    def inspect(self, image: Image, template: str) -> str:
        """Return a property of an image, selected by a Go template."""
        return self._buildah("inspect", "--type=image", f"--format={template}", image.name).strip()

    def layers(self, image: Image) -> Sequence[str]:
        """Return the digests of an image's layers."""
        return self.inspect(image, "{{range .OCIv1.RootFS.DiffIDs}}{{.}} {{end}}").split()

    def environment(self, image: Image) -> Sequence[str]:
        """Return the environment of an image, as ``NAME=value``."""
        return self.inspect(image, '{{range .OCIv1.Config.Env}}{{.}}{{"\\n"}}{{end}}').splitlines()

    def labels(self, image: Image) -> Mapping[str, str]:
        """Return the labels of an image."""
        lines = self.inspect(
            image, '{{range $name, $value := .OCIv1.Config.Labels}}{{$name}}={{$value}}{{"\\n"}}{{end}}'
        )
        return dict(line.split("=", 1) for line in lines.splitlines())

    def command(self, *arguments: str) -> Sequence[str]:
        """Return a command line of buildah with the store of this builder."""
        store = [f"--root={self._cache / 'store'}", f"--runroot={self._cache / 'run'}", "--storage-driver=overlay"]
        return ["buildah", *store, *arguments]

    @contextmanager
    def mount(self, image: Image) -> Iterator[Path]:
        """Mount the files of an image, and unmount them at the end of the context."""
        name = self._buildah("from", image.name).strip()
        try:
            yield Path(self._buildah("mount", name).strip())
        finally:
            self._buildah("rm", name)

    def _add_bill(self, contents: Image, tag: str) -> Image:
        bill = self._bill(contents)
        containerfile = f"FROM {contents.name}\nCOPY {bill.name} /{_bill_path(contents.target)}\n"
        image = Image(contents.target, f"localhost/{contents.target}:{tag}")
        self._build_from(containerfile, image.name, bill, options=_REPRODUCIBLE)
        return image

    def _bill(self, image: Image) -> Path:
        """Return the bill of materials of an image that does not contain it yet."""
        scanner = Path(bill_of_materials.__file__).read_text()
        key = hashlib.sha256("".join([scanner, *self.layers(image)]).encode()).hexdigest()
        bill = self._cache / "bills" / f"{key}.cdx.json"
        if not bill.exists():
            bill.parent.mkdir(exist_ok=True)
            with self.mount(image) as root:
                bill_of_materials.write_bill(root, image.target, bill)
        return bill

    def _remove_old_images(self, tag: str) -> None:
        """Remove images and bills from the store, except for those of the latest builds."""
        builds = self._cache / "builds"
        tags = builds.read_text().split() if builds.exists() else []
        latest = [tag, *(each for each in tags if each != tag)]
        kept = latest[:_KEPT_BUILDS]
        builds.write_text("\n".join(kept))
        for target in TARGETS:
            for name in self._images():
                repository, _, found = name.rpartition(":")
                if repository == f"localhost/{target}" and found not in kept:
                    with suppress(ImageError):  # another process uses it
                        self._buildah("rmi", name)
        self._buildah("rmi", "--prune")
        bills = sorted((self._cache / "bills").iterdir(), key=lambda bill: bill.stat().st_mtime, reverse=True)
        for bill in bills[_KEPT_BUILDS * len(TARGETS) :]:
            bill.unlink()

    def _build_base(self, image: str, key: str) -> None:
        archive = self._cache / f"debian-{key}.tar"
        _run_command(["mmdebstrap", *_DEBIAN, str(archive)], self._cache, self._temporary, _BUILD_SECONDS)
        self._build_from(f"FROM scratch\nADD {archive.name} /\n", image, archive, options=_REPRODUCIBLE)
        archive.unlink()

    def _build_from(self, containerfile: str, image: str, *files: Path, options: Sequence[str] = ()) -> None:
        context = self._directory / "base"
        shutil.rmtree(context, ignore_errors=True)
        context.mkdir()
        (context / "Containerfile").write_text(containerfile)
        for file in files:
            shutil.copy(file, context)
        self._buildah(
            "build-using-dockerfile",
            "--isolation=chroot",
            *options,
            f"--tag={image}",
            str(context),
            seconds=_BUILD_SECONDS,
        )
        shutil.rmtree(context)

    def _build_target(self, *options: str) -> None:
        self._buildah("build-using-dockerfile", *options, ".", seconds=_BUILD_SECONDS)

    def _has(self, image: str) -> bool:
        return image in self._images()

    def _images(self) -> Sequence[str]:
        return self._buildah("images", "--format={{.Name}}:{{.Tag}}").split()

    def _write_pip_settings(self) -> Sequence[Path]:
        """Write pip's configuration of this machine to a file, and return the files and directories that it names."""
        settings = configparser.ConfigParser(interpolation=None)
        settings.read_string(_pip_settings())
        with (self._directory / "pip.conf").open("w") as output:
            settings.write(output)
        values = (Path(value) for section in settings.values() for value in section.values())
        return sorted({path for path in values if path.is_absolute() and path.exists()})

    def _buildah(self, *arguments: str, seconds: int = _RUN_SECONDS) -> str:
        return _run_command(self.command(*arguments), REPOSITORY, self._temporary, seconds)


def _bill_path(target: str) -> str:
    return f"usr/share/sbom/{target}.cdx.json"


def _run_command(command: Sequence[str], directory: Path, temporary: Path, seconds: int) -> str:
    result = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(_EPOCH), "TMPDIR": str(temporary)},
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
        [sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=True,
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
