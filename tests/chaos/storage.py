"""A small file system for a workspace, which can be full, read-only, absent or hung.

Lodge and Spark must meet real errors of a real file system, and its mounts must not remain on the machine. So a
process of its own holds a mount namespace with the file system. Processes that use the storage start in this
namespace, through `Storage.prefix`. When the last of them ends, the kernel removes the mounts, even if the test run
was killed.

Needs root. `Storage.root` is the view from outside.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.chaos.programs import Program

_HOLDER = """
set -e
mount -t tmpfs -o size={size} lodge-chaos '{store}'
mount --bind '{store}' '{path}'
mount --bind '{store}' '{read_only}'
mount -o remount,bind,ro '{read_only}'
echo mounted
exec sleep infinity
"""
_REPOSITORY = Path(__file__).parents[2]
_BUSY_SECONDS = 5.0


class StorageError(Exception):
    """The storage cannot be created or changed. The message says why."""


class Storage:
    """A file system.

    Args:
        directory: The directory of its mount points.
        size: The size of the file system, as ``mount`` accepts it.

    Attributes:
        path: The storage, as processes started with `prefix` see it.
    """

    def __init__(self, directory: Path, size: str = "48m") -> None:
        self._store, self.path = directory / "store", directory / "storage"
        self._read_only, self._empty = directory / "read-only", directory / "empty"
        for path in (self._store, self.path, self._read_only, self._empty):
            path.mkdir()
        script = _HOLDER.format(size=size, store=self._store, path=self.path, read_only=self._read_only)
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        log = directory / "storage.log"
        self._hung_log = directory / "hung-storage.log"
        self._holder = Program(command, log, is_ready=lambda: "mounted" in log.read_text())

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise StorageError("Only root can mount the file systems of these tests.")
        self._holder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()

    @property
    def prefix(self) -> Sequence[str]:
        """Words before the command of a process that uses the storage."""
        return ["nsenter", f"--target={self._holder.process_id}", "--mount", "--"]

    @property
    def can_hang(self) -> bool:
        """Whether this machine supports `hung`."""
        return Path("/dev/fuse").exists()

    @property
    def root(self) -> Path:
        """The storage, as seen from outside."""
        return self._outside(self.path)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Fill the storage to the last byte."""
        filler = self._outside(self._store) / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                pass
        try:
            yield
        finally:
            filler.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Make the storage read-only.

        The kernel refuses that while a file is open for writing, so new writers are locked out first. They stay locked
        out if a file stays open, for example because Spark lost it when it could not write any more.
        """
        self._run("mount", "--bind", str(self._read_only), str(self.path))
        deadline = time.monotonic() + _BUSY_SECONDS
        is_remounted = self._try("mount", "-o", "remount,ro", str(self._store))
        while not is_remounted and time.monotonic() < deadline:
            time.sleep(0.02)
            is_remounted = self._try("mount", "-o", "remount,ro", str(self._store))
        if is_remounted:
            self._run("umount", "--lazy", str(self.path))
        try:
            yield
        finally:
            if is_remounted:
                self._run("mount", "-o", "remount,rw", str(self._store))
            else:
                self._run("umount", "--lazy", str(self.path))

    @contextmanager
    def gone(self) -> Iterator[None]:
        """Unmount the storage, which leaves an empty directory. Open files stay usable."""
        self._run("umount", "--lazy", str(self.path))
        try:
            yield
        finally:
            self._run("mount", "--bind", str(self._store), str(self.path))

    @contextmanager
    def empty(self) -> Iterator[None]:
        """Replace the storage by an empty, writable file system with the same directories."""
        names = [path.name for path in self.root.iterdir() if path.is_dir()]
        self._run("mount", "-t", "tmpfs", "lodge-chaos-empty", str(self._empty))
        try:
            for name in names:  # before processes see the file system, because they create directories too
                (self._outside(self._empty) / name).mkdir(mode=0o700)
            self._run("mount", "--bind", str(self._empty), str(self.path))
        finally:
            self._run("umount", "--lazy", str(self._empty))
        try:
            yield
        finally:
            self._run("umount", "--lazy", str(self.path))

    @contextmanager
    def hung(self) -> Iterator[None]:
        """Hang each new access to the storage. At the end, hanging accesses fail. Open files stay usable."""
        command = [*self.prefix, sys.executable, "-m", "tests.hung_file_system", str(self.path)]
        mount = Program(
            command,
            self._hung_log,
            is_ready=lambda: "mounted" in self._hung_log.read_text(),
            environment={"PYTHONPATH": str(_REPOSITORY)},
        )
        self._hung_log.unlink(missing_ok=True)
        mount.start()
        try:
            yield
        finally:
            if mount.stop() != 0:
                raise StorageError(f"The file system that hangs failed: {self._hung_log.read_text()}")

    def _outside(self, path: Path) -> Path:
        return Path(f"/proc/{self._holder.process_id}/root{path}")

    def _try(self, *command: str) -> bool:
        return subprocess.run([*self.prefix, *command], capture_output=True, check=False).returncode == 0

    def _run(self, *command: str) -> None:
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StorageError(f"{' '.join(command)}: {done.stderr.strip()}")
