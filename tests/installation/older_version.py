"""An older version of Lodge, from the history of this repository."""

import io
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from images.archives import build_images
from images.builder import Builder, Image
from images.source import REPOSITORY
from tests.helm.chart import Values

COMMIT = "12c3d97"
"""The last version without bundled Spark."""

_PACKAGES = ("engine", "gateway", "lodge", "pyspark_lodge", "reaper", "workspace")
_REPOSITORY, _TAG = "lodge.test/lodge-older", "0.1.0"
_IMAGE = Image("lodge", "localhost/lodge-older:latest")
_SITE = "/opt/lodge/lib/python3.11/site-packages"


@dataclass(frozen=True, slots=True)
class OlderVersion:
    """An older version.

    Attributes:
        chart: Its chart.
        archive: A file with its image.
        values: The values that name the image.
    """

    chart: Path
    archive: Path
    values: Values


def build_older_version(directory: Path) -> OlderVersion | None:
    """Build the older version. Return None if the clone does not contain it.

    Its image is today's image with the older packages, because the dependencies are the same.

    Args:
        directory: An empty directory.
    """
    source = directory / "source"
    if not _extract(source):
        return None
    lines = [f"RUN rm -r {' '.join(f'{_SITE}/{name}' for name in _PACKAGES)}"]
    lines += [f"COPY {name} {_SITE}/{name}" for name in _PACKAGES]
    archive = directory / "lodge-older.tar"
    with tempfile.TemporaryDirectory() as temporary, Builder(Path(temporary)) as builder, builder.lock():
        (base,) = (image for image in build_images(builder) if image.target == _IMAGE.target)
        file = directory / "Containerfile"
        file.write_text("\n".join([f"FROM {base.name}", "USER 0", *lines, "USER 185:185", ""]))
        options = ["--isolation=chroot", f"--tag={_IMAGE.name}", f"--file={file}"]
        command = builder.command("build-using-dockerfile", *options, str(source))
        subprocess.run(command, check=True, capture_output=True)
        builder.save(_IMAGE, archive, f"{_REPOSITORY}:{_TAG}")
    values: Values = {"image": {"repository": _REPOSITORY, "tag": _TAG}}
    return OlderVersion(source / "helm" / "lodge", archive, values)


def _extract(directory: Path) -> bool:
    """Write the files of the older version into a directory, and return whether the clone contains them."""
    command = ["git", "-C", str(REPOSITORY), "archive", COMMIT]
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode:
        return False
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return True
