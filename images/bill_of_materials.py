"""The bill of materials of an image: its Debian packages, Python packages and jars, as CycloneDX JSON.

syft finds them. The time, the random number and the directory in its document are replaced, so that equal images have
equal bills. syft overlooks jars without a manifest, so they are added here.
"""

import json
import re
import subprocess
import uuid
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from images.build_errors import ImageError
from tests.cluster.builds import ProgramError, build, program

_SCAN_SECONDS = 300
_MAVEN_PROPERTIES = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_NAMESPACE = uuid.UUID("a0d3d4f1-53a3-4b5c-8d2b-6c1f1b1e7c55")


def write_bill(root: Path, name: str, bill: Path) -> None:
    """Write the bill of materials of an image.

    Args:
        root: The directory with the files of the image.
        name: The name of the image.
        bill: The file to write.

    Raises:
        ImageError: syft is missing and cannot be built, or it failed.
    """
    try:
        build(["syft"], announce=print)
        syft = program("syft")
    except ProgramError as error:
        raise ImageError(str(error)) from error
    result = subprocess.run([syft, root, name], capture_output=True, timeout=_SCAN_SECONDS, check=False)
    if result.returncode:
        raise ImageError(f"syft failed for the image {name!r}: {result.stderr.decode(errors='replace')[-4000:]}")
    document = _with_constant_name(json.loads(result.stdout), name)
    document["components"] += _overlooked_jars(root, document["components"])
    del document["serialNumber"], document["metadata"]["timestamp"]
    digest = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))
    half_written = bill.with_suffix(".new")
    half_written.write_text(json.dumps(document | {"serialNumber": f"urn:uuid:{digest}"}, indent=1, sort_keys=True))
    half_written.replace(bill)


def _overlooked_jars(root: Path, components: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Return the components of the jars that no component names, by the Maven properties in them."""
    named = {each["value"] for component in components for each in component.get("properties", ())}
    for jar in sorted(root.rglob("*.jar")):
        location = f"/{jar.relative_to(root)}"
        if jar.is_symlink() or location in named:
            continue
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if _MAVEN_PROPERTIES.fullmatch(entry):
                    lines = archive.read(entry).decode().splitlines()
                    maven = dict(line.split("=", 1) for line in lines if "=" in line)
                    yield _component(maven["groupId"], maven["artifactId"], maven["version"], location)


def _component(group: str, name: str, version: str, location: str) -> Mapping[str, Any]:
    package = f"pkg:maven/{group}/{name}@{version}"
    return {
        "bom-ref": f"{package}?location={quote(location)}",
        "group": group,
        "name": name,
        "properties": [{"name": "syft:location:0:path", "value": location}],
        "purl": package,
        "type": "library",
        "version": version,
    }


def _with_constant_name(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Replace the identifier of the image, which syft derives from the directory."""
    identifier = document["metadata"]["component"]["bom-ref"]
    replaced: dict[str, Any] = json.loads(json.dumps(document).replace(f'"{identifier}"', json.dumps(name)))
    return replaced
