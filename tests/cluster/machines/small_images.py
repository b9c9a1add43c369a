"""Images with a single static program, written without a build tool."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.builds import program

PAUSE_IMAGE = "lodge.test/pause:1"
"""The image of the process that holds the namespaces of a pod."""

BUSYBOX_IMAGE = "lodge.test/busybox:1"
_BUSYBOX = Path("/bin/busybox")
_BUSYBOX_COMMANDS = ("cat", "hostname", "httpd", "mkdir", "nslookup", "sh", "sleep", "wget")


def write_pause_image(archive: Path) -> Path:
    """Write the pause image to an archive in the format of ``docker save``."""
    return _write(archive, PAUSE_IMAGE, ["/pause"], program("pause"))


def write_busybox_image(archive: Path) -> Path:
    """Write an image with busybox to an archive in the format of ``docker save``."""
    return _write(archive, BUSYBOX_IMAGE, ["/bin/sh"], _BUSYBOX, _BUSYBOX_COMMANDS)


def _write(archive: Path, name: str, command: Sequence[str], program_file: Path, links: Sequence[str] = ()) -> Path:
    path = f"bin/{program_file.name}" if links else program_file.name
    layer = _pack({path: program_file.read_bytes()}, {f"bin/{link}": program_file.name for link in links})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": command, "User": "65535:65535", "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {
        "layer.tar": layer,
        "config.json": json.dumps(config).encode(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    archive.write_bytes(_pack(files))
    return archive


def _pack(files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return output.getvalue()
