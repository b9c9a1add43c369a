"""A test cluster leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.builds import PROGRAMS_OF_A_CLUSTER, program
from tests.cluster.cluster import Cluster
from tests.cluster.processes import ClusterError, wait_until

pytestmark = pytest.mark.usefixtures("cluster_programs")

REPOSITORY = Path(__file__).parents[2]
ENDED_SECONDS = 30.0
STARTS_A_CLUSTER = """
import signal
from tests.cluster.cluster import Cluster
with Cluster() as cluster:
    cluster.node()
    print(cluster.directory, flush=True)
    signal.pause()
"""


def processes_of(directory: Path) -> list[str]:
    """Return the command lines that contain a path in a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if f"{directory}/" in line:
            found.append(line)
    return sorted(found)


def is_gone(directory: Path) -> bool:
    return not directory.exists() and not processes_of(directory)


@pytest.mark.slow
def test_cluster_that_fails_to_start_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    (tmp_path / "kube-apiserver").symlink_to("/bin/false")
    place = tmp_path / "place"
    with pytest.raises(ClusterError, match="kube-apiserver ended with status 1"), Cluster(directory=place):
        pass
    assert is_gone(place)


@pytest.mark.slow
def test_killed_cluster_leaves_nothing():
    with subprocess.Popen([sys.executable, "-c", STARTS_A_CLUSTER], cwd=REPOSITORY, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().decode().strip())
        assert len(processes_of(directory)) == 4
        owner.kill()
    wait_until(lambda: is_gone(directory), f"{directory} and its processes are gone", ENDED_SECONDS)


@pytest.mark.slow
def test_developer_cluster_starts_once_and_leaves_nothing(tmp_path):
    assets, cache = tmp_path / "assets", tmp_path / "cache"
    assets.mkdir()
    for name in PROGRAMS_OF_A_CLUSTER:
        (assets / name).symlink_to(program(name))
    environment = os.environ | {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(cache)}

    def make(command: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "tests.cluster", command],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    place = cache / "lodge" / "cluster" / "developer"
    try:
        assert make("up") == f"export KUBECONFIG={place}/kubeconfig\n"
        started = processes_of(place)
        assert len(started) == 5
        assert make("up") == f"export KUBECONFIG={place}/kubeconfig\n"
        assert processes_of(place) == started
    finally:
        make("down")
    assert is_gone(place)
    assert make("down") == ""
