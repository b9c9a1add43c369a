"""Volumes that all nodes share, in the default storage class.

Each volume is a directory of the host, which all machines see at the same path. Any user can write to it. A claim of
any size, without a storage class, gets one of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

VOLUMES = 16
_CLASS = "shared"


def shared_volumes(directory: Path) -> Sequence[Mapping[str, Any]]:
    """Create the directories, and return the storage class and the volumes."""
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": _CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner",
    }
    return [storage_class, *(_volume(f"shared-{number}", directory) for number in range(1, VOLUMES + 1))]


def _volume(name: str, directory: Path) -> Mapping[str, Any]:
    path = directory / name
    path.mkdir(parents=True)
    path.chmod(0o777)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": _CLASS,
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(path), "type": "Directory"},
        },
    }
