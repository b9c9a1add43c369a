"""Programs are built once, and missing programs are reported."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import builds

REPOSITORY = Path(__file__).parents[2]
GO_THAT_BUILDS = """
directory=$3
shift 3
echo "$@" >> "$0.calls"
sleep 0.2
for package; do
    case $package in
        -*) ;;
        *) echo '#!/bin/sh' > "$directory/${package##*/}"; chmod +x "$directory/${package##*/}" ;;
    esac
done
"""
GO_THAT_FAILS_HALF_WAY = f"""
{GO_THAT_BUILDS}
echo 'no space left' >&2
exit 1
"""
TESTS = """
def test_of_kubernetes(cluster):
    pass

def test_of_something_else():
    pass
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    """Replace Go and its programs; initially neither exists."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)

    def put(script: str) -> Path:
        file = tmp_path / "go"
        file.write_text(f"#!/bin/sh\nPATH={os.defpath}\n{script}")
        file.chmod(0o755)
        return file

    return put


def test_concurrent_runs_build_all_programs_once(go):
    calls = Path(f"{go(GO_THAT_BUILDS)}.calls")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda _: builds.build(["etcd", "kwok"], announce=str), range(4)))
    (call,) = calls.read_text().splitlines()
    assert call.endswith("./etcd sigs.k8s.io/kwok/cmd/kwok")
    assert os.access(builds.program("etcd"), os.X_OK)


def test_build_announces_what_it_does_and_how_long_it_took(go):
    go(GO_THAT_BUILDS)
    announced = []
    builds.build(["etcd", "kwok"], announce=announced.append)
    assert announced[0].startswith("Building etcd, kwok in ")
    assert re.fullmatch(r"Built etcd, kwok in \d+ s\.", announced[1])


def test_failed_build_leaves_no_program(go):
    go(GO_THAT_FAILS_HALF_WAY)
    with pytest.raises(builds.FailedBuildError, match="etcd:\nno space left"):
        builds.build(["etcd"], announce=str)
    assert builds.find_missing(["etcd"]) == ["etcd"]


def test_provided_program_needs_no_go(go, tmp_path, monkeypatch):
    assets = tmp_path / "assets"
    assets.mkdir()
    (assets / "etcd").symlink_to("/bin/true")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    builds.build(["etcd"], announce=str)
    assert builds.program("etcd") == assets / "etcd"
    with pytest.raises(builds.MissingToolError, match="Go is missing, so kwok cannot be built"):
        builds.build(["etcd", "kwok"], announce=str)


@pytest.mark.usefixtures("go")
def test_program_needs_all_tools(tmp_path):
    for command in ("cargo", "cc"):
        (tmp_path / command).symlink_to("/bin/true")
    assert builds.find_missing_tool(["libhdfs.so"]) is not None
    with pytest.raises(builds.MissingToolError, match=r"Rust, a C compiler or a JDK is missing, so libhdfs\.so cannot"):
        builds.build(["libhdfs.so"], announce=str)
    (tmp_path / "javac").symlink_to("/bin/true")
    assert builds.find_missing_tool(["libhdfs.so"]) is None


def pytest_without_go(tmp_path, **environment: str) -> tuple[int, list[str]]:
    """Run two tests, one of which needs a cluster.

    Returns:
        The exit status and the lines of the output.
    """
    file = tmp_path / "test_two.py"
    file.write_text(TESTS)
    variables = {name: value for name, value in os.environ.items() if name != "CI"}
    plugins = ["-p", "tests.skips", "-p", "tests.cluster.plugin"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, *plugins, str(file)],
        cwd=REPOSITORY,
        env=variables | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.usefixtures("go")
def test_run_without_go_skips_cluster_tests_and_lists_them(tmp_path):
    status, lines = pytest_without_go(tmp_path)
    assert status == 0
    assert lines[-1].startswith("SKIPPED: 1 test. Go is missing, so etcd, ")
    assert "1 passed, 1 skipped" in lines[-2]


@pytest.mark.slow
@pytest.mark.usefixtures("go")
def test_run_without_go_fails_cluster_tests_in_ci(tmp_path):
    status, lines = pytest_without_go(tmp_path, CI="true")
    assert status == 1
    assert "1 passed, 1 error" in lines[-1]
    assert any("Go is missing, so etcd, kube-apiserver" in line for line in lines)
