"""The images as files, which ``docker load``, podman and containerd can read.

A file ``IMAGE.image`` beside each archive says from which source it was made, so unchanged sources build nothing.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images import source
from images.builder import TARGETS, Bases, Builder, Image
from images.source import REPOSITORY

ARCHIVES = REPOSITORY / "build" / "images"


@dataclass(frozen=True, slots=True)
class Release:
    """The settings of a build of both images.

    Attributes:
        registry: The registry in the names.
        tag: The tag in the names.
        base: The base image; empty for a Debian that mmdebstrap installs.
        source: The URL of the source, for the labels.
        refresh: Whether to build the base and the images again, for newer packages.
    """

    registry: str = "lodge.test"
    tag: str = source.version()
    base: str = ""
    source: str = ""
    refresh: bool = False

    def name(self, target: str) -> str:
        """Return the name of an image in its archive and in the registry."""
        return f"{self.registry}/{target}:{self.tag}"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the images that do not stand in the Containerfile."""
        return source.labels(self.source)

    @property
    def key(self) -> str:
        """A digest of everything that changes the images, except for packages of the base that are newer."""
        return source.key(self.base, *(f"{name}={value}" for name, value in sorted(self.labels.items())))


DEFAULT = Release()


@dataclass(frozen=True, slots=True)
class Archive:
    """An image in a file.

    Attributes:
        target: The target of the Containerfile.
        name: The name of the image in the file.
        path: The file.
    """

    target: str
    name: str
    path: Path

    @property
    def bill(self) -> Path:
        """The bill of materials beside the image."""
        return self.path.with_suffix(".cdx.json")

    def is_from(self, key: str) -> bool:
        """Return whether the file is complete, and from the source with this key."""
        files = (self.path, self.bill, self._origin)
        return all(file.exists() for file in files) and self._origin.read_text() == self._origin_of(key)

    def write(self, builder: Builder, image: Image, key: str) -> None:
        self._origin.unlink(missing_ok=True)
        builder.save(image, self.path, self.name)
        builder.copy_bill(image, self.bill)
        self._origin.write_text(self._origin_of(key))

    @property
    def _origin(self) -> Path:
        return self.path.with_suffix(".image")

    def _origin_of(self, key: str) -> str:
        return f"{self.name} {key}\n"


def build_images(builder: Builder, release: Release = DEFAULT) -> Sequence[Image]:
    """Build both images in the store of the builder, unless it has images of the same source.

    Raises:
        ImageError: The build failed.
    """
    if not release.refresh and (images := builder.find(release.key)):
        return images
    bases = Bases(release.base, release.base) if release.base else builder.build_bases(again=release.refresh)
    return builder.build(bases, release.key, release.labels)


def build_archives(
    release: Release = DEFAULT, directory: Path = ARCHIVES, announce: Callable[[str], None] = print
) -> Sequence[Archive]:
    """Build both images and write them to files, unless the files are from the same source.

    Concurrent processes wait for each other.

    Args:
        release: The settings.
        directory: The directory of the files.
        announce: Receives a message before a build.

    Raises:
        ImageError: The build failed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    archives = [Archive(target, release.name(target), directory / f"{target}.tar") for target in TARGETS]
    key = release.key
    if not release.refresh and all(archive.is_from(key) for archive in archives):
        return archives
    announce("Building the images. The first build takes several minutes ...")
    with tempfile.TemporaryDirectory() as temporary, Builder(Path(temporary)) as builder, builder.lock():
        images = build_images(builder, release)
        for archive, image in zip(archives, images, strict=True):
            if release.refresh or not archive.is_from(key):
                archive.write(builder, image, key)
    return archives
