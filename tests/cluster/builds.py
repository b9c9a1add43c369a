"""The programs of the test cluster, built by Go.

Each folder in ``programs/`` pins one program. It is a Go module of its own, so Go builds each program with the
dependencies that its authors chose. Built programs are stored in the user's cache directory, below a key of all
inputs of the build. Changed pins lead to a new build, and two checkouts with the same pins share the programs.

Guarantees:

1. A program in ``KUBEBUILDER_ASSETS`` is used without a build, as Kubernetes' own test tools do.
2. An interrupted build leaves no incomplete program.
3. Concurrent runs build a program once.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cluster.processes import DIES_WITH_PARENT

MODULES = Path(__file__).with_name("programs")
_KUBERNETES_VERSION = re.compile(r"^\s*k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)(?: // indirect)?$", re.MULTILINE)


class ProgramError(Exception):
    """A program of the test cluster is missing and cannot be built.

    - `MissingGoError`
    - `FailedBuildError`
    """


class MissingGoError(ProgramError):
    """Programs are missing, and so is Go to build them."""

    def __init__(self, programs: Sequence[str]) -> None:
        super().__init__(
            f"Go is missing, so {', '.join(programs)} cannot be built. Install Go 1.26 or later, "
            "or set KUBEBUILDER_ASSETS to a directory with these programs."
        )
        self.programs = programs


class FailedBuildError(ProgramError):
    """Go failed to build a program."""

    def __init__(self, program: str, output: str) -> None:
        super().__init__(f"Go did not build {program}:\n{output[-4000:]}")
        self.program = program


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a program.

    Attributes:
        module: A folder of ``programs/``.
        package: The package that its module builds.
        tags: The build tags.
    """

    module: str
    package: str
    tags: str = ""


_SOURCES = {
    "etcd": _Source("etcd", "."),
    "kube-apiserver": _Source("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": _Source("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": _Source("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": _Source("kubernetes-node", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": _Source("kubernetes-node", "k8s.io/kubernetes/cmd/kube-proxy"),
    "containerd": _Source("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
    "containerd-shim-runc-v2": _Source("containerd", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
    "ctr": _Source("containerd", "github.com/containerd/containerd/v2/cmd/ctr"),
    "pause": _Source("pause", "."),
    "coredns": _Source("coredns", "."),
    "kwok": _Source("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "versitygw": _Source("versitygw", "github.com/versity/versitygw/cmd/versitygw"),
    "gofakes3": _Source("gofakes3", "github.com/johannesboyne/gofakes3/cmd/gofakes3"),
    "helm": _Source("helm", "helm.sh/helm/v4/cmd/helm"),
    "kubectl": _Source("kubectl", "."),
    # Without service discovery, which needs the client libraries of all clouds.
    "promtool": _Source("promtool", "github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd"),
    "kubeconform": _Source("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform"),
    "syft": _Source("syft", "github.com/anchore/syft/cmd/syft"),
}

PROGRAMS = tuple(_SOURCES)


def cache_directory() -> Path:
    """Return the directory of the programs and of the cluster of ``make cluster``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lodge" / "cluster"


def program(name: str) -> Path:
    """Return the path of a program.

    Raises:
        MissingGoError: The program does not exist yet. Call `build` first.
    """
    for path in _candidate_paths(name):
        if os.access(path, os.X_OK):
            return path
    raise MissingGoError([name])


def find_missing(names: Sequence[str]) -> Sequence[str]:
    """Return the programs that are neither provided nor built."""
    return [name for name in names if not any(os.access(path, os.X_OK) for path in _candidate_paths(name))]


def can_build() -> bool:
    """Return whether Go is installed."""
    return shutil.which("go") is not None


def build(names: Sequence[str], announce: Callable[[str], object]) -> None:
    """Build programs that are missing. Each takes minutes if Go's cache is empty.

    Raises:
        MissingGoError: Go is not installed.
        FailedBuildError: Go failed to build a program.
    """
    absent = find_missing(names)
    if absent and not can_build():
        raise MissingGoError(absent)
    for name in absent:
        source = _SOURCES[name]
        target = _cached_path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.parent / ".lock"):
            if find_missing([name]):
                announce(f"Building {name} in {target.parent}. This takes minutes, but happens only once ...")
                _build(name, source, target)


def _build(name: str, source: _Source, target: Path) -> None:
    half_built = target.with_name(f".{name}")
    go = shutil.which("go") or "go"
    result = subprocess.run(
        [*DIES_WITH_PARENT, go, "build", "-o", half_built, *_flags(source), source.package],
        cwd=MODULES / source.module,
        env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if result.returncode != 0:
        raise FailedBuildError(name, result.stdout.decode(errors="replace"))
    half_built.rename(target)


def _candidate_paths(name: str) -> Iterator[Path]:
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        yield Path(assets) / name
    yield _cached_path(name)


def _cached_path(name: str) -> Path:
    source = _SOURCES[name]
    return cache_directory() / f"{source.module}-{_key(source)}" / name


@cache
def _key(source: _Source) -> str:
    inputs = [" ".join(_flags(source)), platform.system(), platform.machine()]
    inputs += [path.read_text() for path in sorted((MODULES / source.module).iterdir())]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:12]


def _flags(source: _Source) -> Sequence[str]:
    """Return the build flags.

    They set the version that the API server reports. Clients derive its features from it.
    """
    variables = ""
    if found := _KUBERNETES_VERSION.search((MODULES / source.module / "go.mod").read_text()):
        version, major, minor = found.groups()
        values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
        variables = "".join(f" -X k8s.io/component-base/version.{key}={value}" for key, value in values.items())
    tags = [f"-tags={source.tags}"] if source.tags else []
    return ["-mod=readonly", "-buildvcs=false", *tags, f"-ldflags=-s -w{variables}"]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
