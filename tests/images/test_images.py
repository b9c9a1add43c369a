"""Both images: size, contents, labels, bill of materials, and what makes them reproducible."""

import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from images.builder import TARGETS, Builder, Image
from images.source import labels
from tests.images.sandbox import Sandbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

LARGEST_BYTES = {"lodge": 620_000_000, "lodge-spark": 1_280_000_000}
SHARED_LAYERS = 3  # the base, the user, and the dependencies

STALE_BYTECODE = """
import importlib.util, pathlib, sys
for root in {path for path in sys.path if path.startswith("/")}:
    for source in pathlib.Path(root).rglob("*.py"):
        bytecode = pathlib.Path(importlib.util.cache_from_source(source))
        if bytecode.exists():
            header = bytecode.read_bytes()[4:12]
            kind, time = (int.from_bytes(part, "little") for part in (header[:4], header[4:]))
            if kind != 1 and not (kind == 0 and time == int(source.stat().st_mtime)):
                print(source)
        elif str(source).startswith("/opt"):
            print(source)
"""


def test_size_is_bounded(sandbox: Sandbox, image: Image) -> None:
    statuses = [path.lstat() for path in sandbox.root.rglob("*")]
    sizes = {status.st_ino: status.st_size for status in statuses if stat.S_ISREG(status.st_mode)}
    print(f"{image.target}: {sum(sizes.values()) / 1e6:.0f} MB")
    assert sum(sizes.values()) < LARGEST_BYTES[image.target]


def test_image_has_no_build_tools(sandbox: Sandbox) -> None:
    tools = "for tool in pip pip3 gcc cc make git curl wget; do command -v $tool; done; true"
    assert sandbox.output("sh", "-c", tools) == ""
    assert sandbox.output("python3", "-c", "import importlib.util as i; print(i.find_spec('pip'))") == "None\n"


def test_image_keeps_nothing_of_the_machine(sandbox: Sandbox) -> None:
    root = sandbox.root
    assert {path.name for path in (root / "opt").iterdir()} <= {"lodge", "spark", "decom.sh"}
    assert not list((root / "tmp").iterdir())
    assert not list((root / "root" / ".cache").glob("*"))
    for file in ("etc/hostname", "etc/resolv.conf", "etc/pip.conf"):
        assert not (root / file).exists() or (root / file).stat().st_size == 0


def test_layers_do_not_depend_on_times(sandbox: Sandbox) -> None:
    directories = [sandbox.root / name for name in ("opt", "usr/share/sbom")]
    times = {int(path.lstat().st_mtime) for top in directories for path in top.rglob("*")}
    assert len(times) == 1
    assert sandbox.output("python3", "-c", STALE_BYTECODE) == ""


def test_users_own_no_files(sandbox: Sandbox) -> None:
    owned = [path for path in sandbox.root.rglob("*") if path.lstat().st_uid in {185, 12345}]
    assert not owned


def test_images_share_layers(builder: Builder, images: Mapping[str, Image]) -> None:
    lodge, spark = (builder.layers(images[target]) for target in TARGETS)
    assert lodge[:SHARED_LAYERS] == spark[:SHARED_LAYERS]


def test_image_runs_as_user_185(builder: Builder, image: Image, sandbox: Sandbox) -> None:
    assert builder.inspect(image, "{{.OCIv1.Config.User}}") == "185:185"
    assert sandbox.output("id", "-un") == "lodge\n"


def test_labels_name_the_image(builder: Builder, image: Image) -> None:
    found = builder.labels(image)
    assert found.keys() >= labels().keys()
    assert {f"org.opencontainers.image.{name}" for name in ("title", "description", "licenses")} <= found.keys()
    assert found["org.opencontainers.image.version"] == labels()["org.opencontainers.image.version"]


def test_bill_of_materials_is_complete(sandbox: Sandbox, image: Image) -> None:
    bill = json.loads((sandbox.root / f"usr/share/sbom/{image.target}.cdx.json").read_text())
    listed: dict[str, set[str]] = {"deb": set(), "pypi": set(), "maven": set()}
    for component in bill["components"]:
        kind = component.get("purl", "pkg:/").removeprefix("pkg:").partition("/")[0]
        places = [each["value"] for each in component.get("properties", ()) if each["name"] == "syft:location:0:path"]
        if kind == "maven":
            listed[kind].update(Path(place).name for place in places)
        elif kind == "pypi":
            listed[kind].add(_normalized(component["name"]))
        elif kind:
            listed[kind].add(component["name"])
    status = (sandbox.root / "var/lib/dpkg/status").read_text()
    assert listed["deb"] == set(re.findall(r"^Package: (.+)$", status, re.MULTILINE))
    distributions = (sandbox.root / "opt/lodge/lib").glob("python3*/site-packages/*.dist-info")
    assert listed["pypi"] == {_normalized(path.name.partition("-")[0]) for path in distributions}
    assert listed["maven"] == {path.name for path in sandbox.root.rglob("*.jar") if not path.is_symlink()}
    assert "timestamp" not in bill["metadata"]


def _normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
