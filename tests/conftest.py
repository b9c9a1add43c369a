"""Shared fixtures: one real Spark Connect server, and gateways as processes."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import settings
from pyspark.sql.connect.session import SparkSession

from lodge.embedded_spark import link_spark
from tests.cluster.processes import DIES_WITH_PARENT, children_of
from tests.lodge_forks import ForkedLodge
from tests.quick_java import QUICK_JAVA_OPTIONS
from tests.spark_home import class_archive, shared_home
from tests.watched import gateway_of

pytest_plugins = [
    "tests.skips",
    "tests.cluster.plugin",
    "tests.running.garbage",
    "tests.running.tiers",
    "tests.running.measuring",
    "tests.running.scheduling",
    "tests.running.progress",
    "tests.running.failures",
]

settings.register_profile("lodge", deadline=None, max_examples=50)  # a deadline would depend on the machine's load
settings.load_profile("lodge")

REPOSITORY = Path(__file__).parents[1]
START_SECONDS = 240
STOP_SECONDS = 30
SPARK_ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": str(REPOSITORY),
    "SPARK_LOCAL_IP": "127.0.0.1",
}
"""The environment of Spark's processes, in which Python workers can import Lodge's data source."""

SPARK_STARTED = re.compile(r"Spark Connect server started at: (\S+:\d+)")
READY = re.compile(r"Lodge is ready at (sc://\S+)\n")


def wait_until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait until a condition holds, or fail the test.

    Args:
        condition: The condition.
        what: A description of the condition, for the failure.
        seconds: The longest time to wait.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"Not within {seconds} s: {what}")
        time.sleep(0.05)


@pytest.fixture(name="wait_until", scope="session")
def wait_until_fixture() -> Callable[..., None]:
    return wait_until


@dataclass
class SparkProcess:
    """A running Spark Connect server.

    Attributes:
        address: The address, ``sc://host:port``.
        directory: Its working directory.
        process: The process of ``spark-submit``.
    """

    address: str
    directory: Path
    process: "subprocess.Popen[bytes]" = field(repr=False)


_shared: list[SparkProcess] = []


@pytest.fixture(scope="session")
def spark_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a Spark server that can import Lodge's data source."""
    spark = start_spark_process(tmp_path_factory.mktemp("spark"))
    _shared.append(spark)
    try:
        yield spark.address
    finally:
        end(spark.process)


@pytest.fixture(scope="module", autouse=True)
def python_processes_end_with_the_module() -> Iterator[None]:
    """End the Python processes of the shared Spark server.

    Spark keeps those of each session until it ends itself, and starts new ones when it needs them. A session with scans
    has about 150 MB.
    """
    yield
    for spark in _shared:
        for child in children_of(spark.process.pid):
            with suppress(OSError):
                if b"pyspark.daemon" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(child, signal.SIGTERM)


@pytest.fixture(scope="module")
def start_spark() -> Iterator[Callable[..., SparkProcess]]:
    """Start further Spark Connect servers, for tests with other needs.

    Tests use them to kill a server or to change settings. The function takes the arguments of `start_spark_process`.
    """
    started: list[SparkProcess] = []

    def start(directory: Path, *arguments: Any, **options: Any) -> SparkProcess:
        started.append(start_spark_process(directory, *arguments, **options))
        return started[-1]

    yield start
    for spark in started:
        end(spark.process)


def start_spark_process(
    directory: Path,
    prefix: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
    *,
    master: str = "local[2]",
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> SparkProcess:
    """Start a Spark Connect server, by default with executors in its own process, and wait until it is ready.

    Args:
        directory: The working directory.
        prefix: Words before the command of the server, which may run it as another user.
        more: Further settings of Spark.
        master: The master of the executors.
        python: The Python of an environment with its own PySpark, and without Lodge.
        environment: Further environment variables.
    """
    if not prefix and (python is None or has_same_spark(python)):
        home, archive = shared_home(), class_archive(create_archive)
    else:  # the cache of this user may be unreadable for the server, and another Spark has other classes
        home, archive = spark_home(directory, python), ""
    return launch_spark(
        directory, home, prefix, more, master=master, python=python, environment=environment, java_options=archive
    )


def launch_spark(
    directory: Path,
    home: Path,
    prefix: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
    *,
    master: str = "local[2]",
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
    java_options: str = "",
) -> SparkProcess:
    """Start a server of the Spark in ``home``, and wait until it is ready.

    Takes the arguments of `start_spark_process`, and options of Java.
    """
    log = directory / "server.log"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={directory} {QUICK_JAVA_OPTIONS} {java_options}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(directory),
        "spark.python.unix.domain.socket.dir": tempfile.gettempdir(),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        **(more or {}),
    }
    command = [
        *DIES_WITH_PARENT,
        *prefix,
        str(home / "bin" / "spark-submit"),
        "--master",
        master,
    ]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    variables = os.environ | SPARK_ENVIRONMENT | {"SPARK_HOME": str(home)}
    if python is not None:
        variables |= {"PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    variables |= environment or {}
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=directory, env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        return SparkProcess(f"sc://{spark_address(server, log)}", directory, server)
    except BaseException:
        end(server)
        raise


def create_archive(java_option: str) -> None:
    """Create an archive of the classes that common statements need.

    Args:
        java_option: The option with which Java writes the archive when the server ends.
    """
    with tempfile.TemporaryDirectory(prefix="lodge-archive-") as temporary:
        directory = Path(temporary)
        server = launch_spark(directory, shared_home(), java_options=java_option)
        try:
            spark = SparkSession.builder.remote(server.address).create()
            for kind in ("parquet", "orc", "json", "csv"):
                path = str(directory / kind)
                spark.range(100).selectExpr("id", "cast(id as string) s").write.format(kind).save(path)
                spark.read.format(kind).schema("id bigint, s string").load(path).createOrReplaceTempView(kind)
                spark.sql(
                    f"select s.s, count(*) from {kind} s join parquet p using (id) group by 1 order by 2"
                ).collect()
            spark.range(10).mapInArrow(lambda batches: batches, "id bigint").collect()
            spark.stop()
        finally:
            server.process.terminate()
            server.process.wait(START_SECONDS)


def spark_home(directory: Path, python: Path | None) -> Path:
    """Return the directory of Spark for a server.

    Args:
        directory: The working directory of the server.
        python: The Python of an environment with another Spark. By default, the Spark is that of the tests.
    """
    if python is None:
        home = directory / "spark"
        return home if home.exists() else link_spark(Path(pyspark.__file__).parent, home)
    return package_of(python)


def has_same_spark(python: Path) -> bool:
    """Return whether the PySpark of an environment has the version of the tests."""
    version = Path("version.py")
    return (package_of(python) / version).read_bytes() == (Path(pyspark.__file__).parent / version).read_bytes()


def package_of(python: Path) -> Path:
    (package,) = python.parents[1].glob("lib/python*/site-packages/pyspark")
    return package


def spark_address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        if started := SPARK_STARTED.search(log.read_text(errors="replace")):
            return started[1]
        time.sleep(0.1)
    pytest.fail(f"Spark did not start in {START_SECONDS} s; its log ends:\n{log.read_text()[-4000:]}")


def end(process: "subprocess.Popen[bytes] | ForkedLodge") -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)


@dataclass
class LodgeProcess:
    """A running ``lodge serve``.

    Attributes:
        address: The address for clients, ``sc://host:port``.
        root: The directory of the default temporary workspace.
        files: The directory of the workspace ``dfs``.
        log_file: The file with its standard error.
        process: The process.
    """

    address: str
    root: Path
    files: Path
    log_file: Path
    process: "subprocess.Popen[bytes] | ForkedLodge" = field(repr=False)

    @property
    def target(self) -> str:
        return self.address.removeprefix("sc://").partition("/")[0]

    @property
    def gateway_pid(self) -> int:
        """The id of the gateway's process. That of ``process`` is the watcher's."""
        return gateway_of(self.process.pid)

    def locations(self) -> list[Path]:
        return [path for path in self.root.iterdir() if path.name != ".lodge"]

    def records(self) -> list[Path]:
        return list((self.root / ".lodge" / "sessions").iterdir())

    def log(self) -> str:
        return self.log_file.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """Stop the gateway as an operator would, and return its exit status."""
        end(self.process)
        return self.process.returncode


@pytest.fixture(scope="module")
def start_lodge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LodgeProcess]]:
    """Start gateways. They end with the module.

    Each has workspaces of its own, unless the test names another gateway or directories. A test can pass a Python
    program that changes the product before it runs the command.
    """
    with starting_gateways(tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="session")
def start_shared_lodge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LodgeProcess]]:
    """Start gateways that several modules use. They end with the test run."""
    with starting_gateways(tmp_path_factory) as start:
        yield start


@contextmanager
def starting_gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LodgeProcess]]:
    started: list[LodgeProcess] = []

    def start(
        *options: str,
        backend: str,
        beside: LodgeProcess | None = None,
        reaper: str = "--no-reaper",
        workspaces: bool = True,
        places: tuple[Path, Path] | None = None,
        program: Sequence[str] = (),
    ) -> LodgeProcess:
        directory = tmp_path_factory.mktemp("lodge")
        root, files = directory / "tmp", directory / "files"
        if beside is not None:
            places = (beside.root, beside.files)
        if places is not None:
            root, files = places
        for path in (root, files):
            path.mkdir(exist_ok=True)
        arguments = ["serve", "--listen", "127.0.0.1:0", "--backend", backend, reaper]
        if workspaces:
            arguments += ["--workspace", f"dfs={files.as_uri()}", "--workspace", f"dfs.tmp={root.as_uri()}"]
        arguments += options
        output, log = directory / "lodge.out", directory / "lodge.log"
        process: subprocess.Popen[bytes] | ForkedLodge
        if program:
            command = [*DIES_WITH_PARENT, sys.executable, *program, *arguments]
            with output.open("wb") as lines, log.open("wb") as errors:
                process = subprocess.Popen(command, stdout=lines, stderr=errors, cwd=directory)
        else:
            process = ForkedLodge(arguments, directory, output, log)
        lodge = LodgeProcess(_address(process, output, log), root, files, log, process)
        started.append(lodge)
        return lodge

    try:
        yield start
    finally:
        for lodge in started:
            if lodge.process.poll() is None:
                lodge.process.terminate()
        for lodge in started:
            lodge.stop()


def _address(process: "subprocess.Popen[bytes] | ForkedLodge", output: Path, log: Path) -> str:
    """Wait until a gateway is ready, and return its address."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        has_ended = process.poll() is not None
        if output.exists() and (ready := READY.search(output.read_text())):
            return ready[1]
        if has_ended:
            break
        time.sleep(0.02)
    end(process)
    pytest.fail(f"lodge serve did not start: {log.read_text() if log.exists() else ''}")
