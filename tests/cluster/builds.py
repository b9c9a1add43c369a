"""The programs of the test cluster, built by Go or a C compiler, or installed by npm or Maven.

Each folder in ``programs/`` pins the programs of one tool. All Go programs belong to one module, so each package that
several of them use is compiled once, which halves the time of the build. Built programs are stored in the user's cache
directory, below a key of all inputs of the build. Changed pins lead to a new build, and two checkouts with the same
pins share the programs.

Guarantees:

1. A program in ``KUBEBUILDER_ASSETS`` is used without a build, as Kubernetes' own test tools do.
2. An interrupted build leaves no incomplete program.
3. Concurrent runs build a program once.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.cache import hold_lock, user_cache
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
_COMPILER_MEMORY = "2GiB"
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
    """A tool failed to build programs."""

    def __init__(self, tool: _Tool, programs: Sequence[str], output: str) -> None:
        super().__init__(f"{tool.name} did not build {', '.join(programs)}:\n{output[-4000:]}")
        self.programs = programs


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a program.

    Attributes:
        module: A folder of ``programs/``.
        package: The package that its module builds, for Go.
        tool: The tool that builds it.
    """

    module: str
    package: str = ""
    tool: _Tool = _GO


_SOURCES = {
    "etcd": _Source("go", "./etcd"),
    "kube-apiserver": _Source("go", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": _Source("go", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": _Source("go", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": _Source("go", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": _Source("go", "k8s.io/kubernetes/cmd/kube-proxy"),
    "containerd": _Source("go", "github.com/containerd/containerd/v2/cmd/containerd"),
    "containerd-shim-runc-v2": _Source("go", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
    "ctr": _Source("go", "github.com/containerd/containerd/v2/cmd/ctr"),
    "pause": _Source("go", "./pause"),
    "coredns": _Source("go", "./coredns"),
    "kwok": _Source("go", "sigs.k8s.io/kwok/cmd/kwok"),
    "versitygw": _Source("go", "./versitygw"),
    "gofakes3": _Source("go", "github.com/johannesboyne/gofakes3/cmd/gofakes3"),
    "helm": _Source("go", "helm.sh/helm/v4/cmd/helm"),
    "kubectl": _Source("go", "./kubectl"),
    "promtool": _Source("go", "github.com/prometheus/prometheus/cmd/promtool"),
    "kubeconform": _Source("go", "github.com/yannh/kubeconform/cmd/kubeconform"),
    "syft": _Source("go", "./syft"),
    "fake-gcs-server": _Source("go", "github.com/fsouza/fake-gcs-server"),
    "azurite-blob": _Source("azurite", tool=_NPM),
    "hdfs-jars": _Source("hdfs", tool=_MAVEN),
    "libhdfs.so": _Source("libhdfs", tool=_C),
}

PROGRAMS = tuple(_SOURCES)
PROGRAMS_OF_A_CLUSTER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
PROGRAMS_OF_MACHINES = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "pause", "coredns")
OPTIONAL_PROGRAMS = frozenset(name for name, source in _SOURCES.items() if source.tool is not _GO)
"""Programs that only some tests need. Developers without the tools to build them do not build them."""


def cache_directory() -> Path:
    """Return the directory of the programs and of the cluster of ``make cluster``."""
    return user_cache() / "cluster"


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
    """Build programs that are missing. It takes minutes if Go's cache is empty.

    Raises:
        MissingToolError: A tool is not installed.
        FailedBuildError: A tool failed to build a program.
    """
    absent = find_missing(names)
    if tool := find_missing_tool(absent):
        raise MissingToolError(tool, absent)
    for module in dict.fromkeys(_SOURCES[name].module for name in absent):
        _build_module([name for name in absent if _SOURCES[name].module == module], announce)


def _build_module(names: Sequence[str], announce: Callable[[str], object]) -> None:
    """Build programs of one module."""
    source = _SOURCES[names[0]]
    directory = _cached_path(names[0]).parent
    directory.mkdir(parents=True, exist_ok=True)
    with hold_lock(directory / ".lock"):
        absent = find_missing(names)
        if not absent:
            return
        announce(f"Building {', '.join(absent)} in {directory}. This takes minutes, but happens only once ...")
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(dir=directory, prefix=".build-") as half_built:
            _BUILDERS[source.tool](absent, Path(half_built))
            for name in absent:
                Path(half_built, name).rename(directory / name)
        announce(f"Built {', '.join(absent)} in {time.monotonic() - begun:.0f} s.")


def _build(names: Sequence[str], directory: Path) -> None:
    """Build Go programs with one command, so that packages are compiled in parallel and only once.

    Most compilers end before they need the memory that a garbage collector would return, which saves a sixth of the
    time.
    """
    sources = [_SOURCES[name] for name in names]
    environment = {"CGO_ENABLED": "0", "GOWORK": "off", "GOGC": "off", "GOMEMLIMIT": _COMPILER_MEMORY}
    command = ["go", "build", "-o", f"{directory}/", *_flags(sources[0]), *(source.package for source in sources)]
    _run(names, command, MODULES / sources[0].module, environment)


def _install(names: Sequence[str], directory: Path) -> None:
    """Install an npm package. Its own scripts do not run."""
    (name,) = names
    home = directory.parent
    for file in (MODULES / _SOURCES[name].module).iterdir():
        shutil.copy(file, home)
    _run(names, ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], home)
    (directory / name).symlink_to(Path("node_modules", ".bin", name))


def _fetch_jars(names: Sequence[str], directory: Path) -> None:
    """Fetch the jars of a Maven project into a directory."""
    (name,) = names
    command = ["mvn", "-q", "-B", _COPY_JARS, f"-DoutputDirectory={directory / name}"]
    _run(names, command, MODULES / _SOURCES[name].module)


def _compile(names: Sequence[str], directory: Path) -> None:
    """Compile Hadoop's own source of libhdfs, which a Rust crate contains."""
    (name,) = names
    java = Path(shutil.which("javac") or "javac").resolve().parents[1]
    with tempfile.TemporaryDirectory(dir=directory) as vendored:
        _run(names, ["cargo", "vendor", "--locked", "--quiet", vendored], MODULES / _SOURCES[name].module)
        common = Path(vendored, "hdfs-sys", "libhdfs")
        code = common / "hdfs_3_3"
        places = [common, code, code / "include", code / "os/posix", java / "include", java / "include/linux"]
        files = [*code.glob("*.c"), *(code / "os/posix").glob("*.c")]
        links = [f"-L{java / 'lib/server'}", "-ljvm", "-o", str(directory / name)]
        flags = ["-shared", "-fPIC", "-O2", "-w", *(f"-I{place}" for place in places)]
        _run(names, ["cc", *flags, *files, *links], Path(vendored))


_BUILDERS = {_GO: _build, _NPM: _install, _MAVEN: _fetch_jars, _C: _compile}


def _run(
    names: Sequence[str], command: Sequence[str | Path], directory: Path, environment: Mapping[str, str] = {}
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
        raise FailedBuildError(_SOURCES[names[0]].tool, names, result.stdout.decode(errors="replace"))


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
    inputs += [path.read_text() for path in sorted((MODULES / source.module).rglob("*")) if path.is_file()]
    return hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:12]


def _flags(source: _Source) -> Sequence[str]:
    """Return Go's build flags.

    They set the version that the API server reports. Clients derive its features from it. The tag removes the service
    discovery of promtool, which needs the client libraries of all clouds. Information for debuggers takes a fifth of
    the time of a build.
    """
    if source.tool is not _GO:
        return []
    variables = ""
    if found := _KUBERNETES_VERSION.search((MODULES / source.module / "go.mod").read_text()):
        version, major, minor = found.groups()
        values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
        variables = "".join(f" -X k8s.io/component-base/version.{key}={value}" for key, value in values.items())
    return [
        "-mod=readonly",
        "-buildvcs=false",
        "-tags=remove_all_sd",
        "-gcflags=all=-dwarf=false",
        f"-ldflags=-s -w{variables}",
    ]
