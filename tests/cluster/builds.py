"""The programs of the test cluster, built by Go or a C compiler, or installed by npm or Maven.

Each folder in ``programs/`` pins one program. It is a module or package of its own, so each program has the
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
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cluster.processes import DIES_WITH_PARENT

MODULES = Path(__file__).with_name("programs")
_KUBERNETES_VERSION = re.compile(r"^\s*k8s\.io/kubernetes v((\d+)\.(\d+)\.\d+)(?: // indirect)?$", re.MULTILINE)


class ProgramError(Exception):
    """A program of the test cluster is missing and cannot be built.

    - `MissingToolError`
    - `FailedBuildError`
    """


@dataclass(frozen=True, slots=True)
class _Tool:
    """A program that builds others.

    Attributes:
        command: The name of the program.
        name: Its name for people.
        versions: What to install.
        others: The names of further programs that it needs.
    """

    command: str
    name: str
    versions: str
    others: tuple[str, ...] = ()

    def is_missing(self) -> bool:
        return not all(map(shutil.which, (self.command, *self.others)))


_GO = _Tool("go", "Go", "Go 1.26 or later")
_NPM = _Tool("npm", "npm", "Node.js 20 or later with npm")
_MAVEN = _Tool("mvn", "Maven", "Maven 3.8 or later")
_C = _Tool("cargo", "Rust, a C compiler or a JDK", "cargo, cc, and a JDK of Java 17 or later", others=("cc", "javac"))
_COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class MissingToolError(ProgramError):
    """Programs are missing, and so is the tool to build them."""

    def __init__(self, tool: _Tool, programs: Sequence[str]) -> None:
        super().__init__(
            f"{tool.name} is missing, so {', '.join(programs)} cannot be built. Install {tool.versions}, "
            "or set KUBEBUILDER_ASSETS to a directory with these programs."
        )
        self.programs = programs


class FailedBuildError(ProgramError):
    """A tool failed to build a program."""

    def __init__(self, tool: _Tool, program: str, output: str) -> None:
        super().__init__(f"{tool.name} did not build {program}:\n{output[-4000:]}")
        self.program = program


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a program.

    Attributes:
        module: A folder of ``programs/``.
        package: The package that its module builds, for Go.
        tags: The build tags, for Go.
        tool: The tool that builds it.
    """

    module: str
    package: str = ""
    tags: str = ""
    tool: _Tool = _GO


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
    "fake-gcs-server": _Source("fake-gcs-server", "github.com/fsouza/fake-gcs-server"),
    "azurite-blob": _Source("azurite", tool=_NPM),
    "hdfs-jars": _Source("hdfs", tool=_MAVEN),
    "libhdfs.so": _Source("libhdfs", tool=_C),
}

PROGRAMS = tuple(_SOURCES)
OPTIONAL_PROGRAMS = frozenset(name for name, source in _SOURCES.items() if source.tool is not _GO)
"""Programs that only some tests need. Developers without the tools to build them do not build them."""


def cache_directory() -> Path:
    """Return the directory of the programs and of the cluster of ``make cluster``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lodge" / "cluster"


def program(name: str) -> Path:
    """Return the path of a program.

    Raises:
        MissingToolError: The program does not exist yet. Call `build` first.
    """
    for path in _candidate_paths(name):
        if os.access(path, os.X_OK):
            return path
    raise MissingToolError(_SOURCES[name].tool, [name])


def find_missing(names: Sequence[str]) -> Sequence[str]:
    """Return the programs that are neither provided nor built."""
    return [name for name in names if not any(os.access(path, os.X_OK) for path in _candidate_paths(name))]


def find_missing_tool(names: Sequence[str]) -> _Tool | None:
    """Return a tool that is not installed, and without which a program cannot be built."""
    tools = [_SOURCES[name].tool for name in names]
    return next((tool for tool in tools if tool.is_missing()), None)


def build(names: Sequence[str], announce: Callable[[str], object]) -> None:
    """Build programs that are missing. Each takes minutes if Go's cache is empty.

    Raises:
        MissingToolError: A tool is not installed.
        FailedBuildError: A tool failed to build a program.
    """
    absent = find_missing(names)
    if tool := find_missing_tool(absent):
        raise MissingToolError(tool, absent)
    for name in absent:
        source = _SOURCES[name]
        target = _cached_path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.parent / ".lock"):
            if find_missing([name]):
                announce(f"Building {name} in {target.parent}. This takes minutes, but happens only once ...")
                half_built = target.with_name(f".{name}")
                _BUILDERS[source.tool](name, source, half_built)
                half_built.rename(target)


def _build(name: str, source: _Source, target: Path) -> None:
    environment = {"CGO_ENABLED": "0", "GOWORK": "off"}
    command: list[str | Path] = ["go", "build", "-o", target, *_flags(source), source.package]
    _run(name, source, command, MODULES / source.module, environment)


def _install(name: str, source: _Source, target: Path) -> None:
    """Install an npm package. Its own scripts do not run."""
    directory = target.parent
    for file in (MODULES / source.module).iterdir():
        shutil.copy(file, directory)
    _run(name, source, ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)
    target.unlink(missing_ok=True)
    target.symlink_to(Path("node_modules", ".bin", name))


def _fetch_jars(name: str, source: _Source, target: Path) -> None:
    """Fetch the jars of a Maven project into a directory."""
    shutil.rmtree(target, ignore_errors=True)
    _run(name, source, ["mvn", "-q", "-B", _COPY_JARS, f"-DoutputDirectory={target}"], MODULES / source.module)


def _compile(name: str, source: _Source, target: Path) -> None:
    """Compile Hadoop's own source of libhdfs, which a Rust crate contains."""
    java = Path(shutil.which("javac") or "javac").resolve().parents[1]
    with tempfile.TemporaryDirectory(dir=target.parent) as vendored:
        _run(name, source, ["cargo", "vendor", "--locked", "--quiet", vendored], MODULES / source.module)
        common = Path(vendored, "hdfs-sys", "libhdfs")
        code = common / "hdfs_3_3"
        places = [common, code, code / "include", code / "os/posix", java / "include", java / "include/linux"]
        files = [*code.glob("*.c"), *(code / "os/posix").glob("*.c")]
        links = [f"-L{java / 'lib/server'}", "-ljvm", "-o", str(target)]
        flags = ["-shared", "-fPIC", "-O2", "-w", *(f"-I{place}" for place in places)]
        _run(name, source, ["cc", *flags, *files, *links], Path(vendored))


_BUILDERS = {_GO: _build, _NPM: _install, _MAVEN: _fetch_jars, _C: _compile}


def _run(
    name: str, source: _Source, command: Sequence[str | Path], directory: Path, environment: Mapping[str, str] = {}
) -> None:
    program, *arguments = command
    result = subprocess.run(
        [*DIES_WITH_PARENT, shutil.which(program) or program, *arguments],
        cwd=directory,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if result.returncode != 0:
        raise FailedBuildError(source.tool, name, result.stdout.decode(errors="replace"))


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
    """Return Go's build flags.

    They set the version that the API server reports. Clients derive its features from it.
    """
    if source.tool is not _GO:
        return []
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
