"""``make images``: build the images of Lodge and write them to files."""

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from images import source
from images.archives import ARCHIVES, Release, build_archives, build_images
from images.build_errors import ImageError
from images.builder import Builder, install_tools


def main() -> int:
    arguments = parse_arguments()
    if problem := install_tools():
        print(problem, file=sys.stderr)
        return 1
    try:
        build(arguments)
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m images", description="Build the images of Lodge without Docker.")
    parser.add_argument("--output", type=Path, default=ARCHIVES, help="the directory of the files")
    parser.add_argument("--registry", default="lodge.test", help="the registry in the names (default: %(default)s)")
    parser.add_argument("--tag", default=source.version(), help="the tag in the names (default: %(default)s)")
    parser.add_argument("--base", default="", help="the base image; by default a Debian that mmdebstrap installs")
    parser.add_argument("--source", default="", help="the URL of the source, for the labels")
    parser.add_argument("--refresh", action="store_true", help="build everything again, for newer packages of Debian")
    parser.add_argument("--push", action="store_true", help="also push the images to the registry")
    return parser.parse_args()


def build(arguments: argparse.Namespace) -> None:
    release = Release(
        registry=arguments.registry,
        tag=arguments.tag,
        base=arguments.base,
        source=arguments.source,
        refresh=arguments.refresh,
    )
    for archive in build_archives(release, arguments.output):
        print(f"{archive.name}  {archive.path.stat().st_size / 1e6:.0f} MB  {archive.path}")
    if arguments.push:
        push(release)


def push(release: Release) -> None:
    with tempfile.TemporaryDirectory() as directory, Builder(Path(directory)) as builder:
        for image in build_images(builder, replace(release, refresh=False)):
            builder.push(image, release.name(image.target))
            print(f"Pushed {release.name(image.target)}.")


if __name__ == "__main__":
    sys.exit(main())
