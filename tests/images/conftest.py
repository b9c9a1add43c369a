"""The built images. The first build downloads the base and all dependencies."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from images.archives import build_images
from images.builder import TARGETS, Builder, Image
from tests.images.sandbox import Sandbox
from tests.images.tools import require_image_tools

FILES = ("spark.conf", "spark_programme.sh")


@pytest.fixture(scope="package")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    require_image_tools()
    with Builder(tmp_path_factory.mktemp("images")) as builder:
        yield builder


@pytest.fixture(scope="package")
def images(builder: Builder) -> Mapping[str, Image]:
    """The images by target."""
    with builder.lock():
        return {image.target: image for image in build_images(builder)}


@pytest.fixture(scope="package")
def sandboxes(
    builder: Builder, images: Mapping[str, Image], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Sandbox]]:
    """The mounted images by target."""
    files = tmp_path_factory.mktemp("files")
    files.chmod(0o755)
    for name in FILES:
        shutil.copy(Path(__file__).with_name(name), files)
    with ExitStack() as stack:
        yield {
            target: Sandbox(stack.enter_context(builder.mount(image)), builder.environment(image), files)
            for target, image in images.items()
        }


@pytest.fixture(params=TARGETS)
def image(images: Mapping[str, Image], request: pytest.FixtureRequest) -> Image:
    """Each of the images."""
    found: Image = images[request.param]
    return found


@pytest.fixture
def sandbox(sandboxes: Mapping[str, Sandbox], image: Image) -> Sandbox:
    """A sandbox of the image."""
    return sandboxes[image.target]
