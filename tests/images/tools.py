"""The tools of image builds."""

from images.builder import install_tools
from tests.cluster.builds import find_missing
from tests.skips import skip_missing


def require_image_tools() -> None:
    """Skip the test unless this machine can build images."""
    if problem := install_tools():
        skip_missing(problem)
    if find_missing(["syft"]):
        skip_missing("syft is missing. Run `make cluster-programs`, which needs Go.")
