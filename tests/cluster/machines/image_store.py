"""Images that the nodes of a cluster have from the start.

They are imported and unpacked once. Each node gets links to the files, because a container runtime never changes the
files of an image. Only its databases are copied.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.cluster.builds import program
from tests.cluster.machines.network import run_command
from tests.cluster.processes import Process


def create_store(directory: Path, archives: Sequence[Path]) -> Path:
    """Import and unpack the images of archives in the format of ``docker save``, and return their store.

    Args:
        directory: The directory of the store, which does not exist.
        archives: The archives.
    """
    directory.mkdir()
    store, socket, settings = directory / "images", directory / "containerd.sock", directory / "containerd.toml"
    settings.write_text(_SETTINGS.format(store=store, state=directory / "state", socket=socket))
    command = [program("containerd"), "--config", settings]
    containerd = Process(command, directory / "containerd.log", is_ready=socket.exists)
    containerd.start()
    try:
        for archive in archives:
            import_image(socket, archive, unpack=True)
    finally:
        containerd.kill()
    return store


def copy_store(store: Path, target: Path) -> None:
    """Give a node its own store with the same images."""
    run_command("cp", "--archive", "--link", str(store), str(target))
    for database in store.rglob("*.db"):
        copy = target / database.relative_to(store)
        copy.unlink()
        copy.write_bytes(database.read_bytes())


def import_image(socket: Path, archive: Path, *, unpack: bool = False) -> None:
    """Add the images of an archive to a store, through the socket of its container runtime."""
    options = [] if unpack else ["--no-unpack"]
    run_command(
        str(program("ctr")), f"--address={socket}", "--namespace=k8s.io", "images", "import", *options, str(archive)
    )


_SETTINGS = """
version = 3
root = "{store}"
state = "{state}"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.nri.v1.nri"]

[grpc]
address = "{socket}"
"""
