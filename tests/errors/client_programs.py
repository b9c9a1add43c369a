"""Builds and runs the Go and Scala clients.

The programs run statements, one in each line of their standard input. For each one, they print the rows that the client
receives, or what the client shows of the error.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from tests.cache import user_cache
from tests.quick_java import QUICK_JAVA
from tests.skips import skip_missing

HERE = Path(__file__).parent / "clients"
JARS = Path(pyspark.__file__).parent / "jars"
RUN_SECONDS = 280
_ROWS = ("columns", "rows")
_SERVER_JARS = re.compile(r"spark-(sql|core|connect|catalyst|hive|mllib|streaming|yarn|kubernetes)_")

Statements = Sequence[tuple[str, str]]
"""Connection strings and SQL texts."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client receives for a statement that succeeds.

    Attributes:
        columns: The names and types of the columns. The names of the types are those of Spark.
        rows: The values of each row, as JSON represents them.
    """

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Write:
    """A query whose rows a DataFrame call writes to a table.

    Attributes:
        call: The call, as the reference of temporary tables spells it.
        query: The query.
        table: The name of the table.
        condition: The condition of ``overwrite(condition)``.
    """

    call: str
    query: str
    table: str
    condition: str = ""


@dataclass(frozen=True, slots=True)
class GoClient:
    """The compiled program of the Go client."""

    program: Path

    def run(self, statements: Statements, variables: Mapping[str, str] | None = None) -> list[Mapping[str, str]]:
        """Run statements.

        Args:
            statements: The statements. Those with the same connection string share a session.
            variables: Further environment variables.

        Returns:
            The text, condition and SQLSTATE of each error. Empty for a statement without an error.
        """
        results = self._run(statements, variables)
        return [{key: value for key, value in result.items() if key not in _ROWS} for result in results]

    def answers(self, remote: str, statements: Sequence[str]) -> Sequence[Answer]:
        """Run statements that succeed in one session, and return the answers."""
        return [
            _answer(statement, result, result.get("columns"), result.get("rows"))
            for statement, result in zip(statements, self._run([(remote, each) for each in statements]), strict=True)
        ]

    def _run(self, statements: Statements, variables: Mapping[str, str] | None = None) -> Sequence[dict[str, Any]]:
        lines = [json.dumps({"Remote": remote, "Statement": text}) for remote, text in statements]
        output = run_program([self.program], "\n".join(lines), variables=variables)
        return [json.loads(line) for line in output.splitlines()]


def build_go_client() -> GoClient:
    """Compile the program once into the user's cache directory, or skip the test if Go is missing."""
    go = shutil.which("go")
    if go is None:
        skip_missing("Go is not installed. Install it, and put it on PATH.")
    sources = HERE / "go"
    inputs = [file.read_text() for file in sorted(sources.iterdir())]
    built = _build_once("go", inputs, lambda to: run_program([go, "build", "-o", to / "errors", "."], cwd=sources))
    return GoClient(built / "errors")


@dataclass(frozen=True, slots=True)
class ScalaClient:
    """The compiled program of the Scala client."""

    java: str
    class_path: str

    def run(self, statements: Statements, java_options: Sequence[str] = ()) -> list[Sequence[str]]:
        """Run statements.

        Args:
            statements: The statements. Those with the same connection string share a session.
            java_options: Further options of the JVM.

        Returns:
            The class, text, condition and SQLSTATE of each error. Empty strings for a statement without an error.
        """
        return [result[:4] for result in self._run(statements, java_options)]

    def answers(self, remote: str, statements: Sequence[str | Write]) -> Sequence[Answer]:
        """Run statements and writes that succeed in one session, and return the answers.

        A write has an answer without columns and rows.
        """
        results = self._run([(remote, *_fields(statement)) for statement in statements])
        answers = []
        for statement, result in zip(statements, results, strict=True):
            schema, rows = map(json.loads, result[4:] or ('{"fields": []}', "[]"))
            columns = None if any(result[:4]) else [(field["name"], field["type"]) for field in schema["fields"]]
            answers.append(_answer(statement, result[:4], columns, [list(row.values()) for row in rows]))
        return answers

    def _run(self, statements: Sequence[Sequence[str]], java_options: Sequence[str] = ()) -> Sequence[Sequence[str]]:
        lines = ["\t".join([remote, *map(_encode, fields)]) for remote, *fields in statements]
        opens = "--add-opens=java.base/java.nio=ALL-UNNAMED"
        command = [self.java, *QUICK_JAVA, *java_options, opens, "-cp", self.class_path, "Errors"]
        output = run_program(command, "\n".join(lines))
        results = [line.split("\t")[1:] for line in output.splitlines() if line.startswith("RESULT\t")]
        return [[base64.b64decode(each.removeprefix(".")).decode() for each in result] for result in results]


def _answer(statement: object, result: object, columns: Any, rows: Any) -> Answer:
    assert columns is not None, f"{statement}: {result}"
    return Answer([(name, kind) for name, kind in columns], [tuple(row) for row in rows])


def _fields(statement: str | Write) -> Sequence[str]:
    if isinstance(statement, str):
        return [statement]
    return [statement.query, statement.call, statement.table, statement.condition]


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def build_scala_client() -> ScalaClient:
    """Compile the program with the Scala compiler of Spark, once into the user's cache directory."""
    java = shutil.which("java")
    assert java is not None
    client = next((JARS / "connect-repl").glob("spark-connect-client-jvm_*.jar"))
    libraries = [client, *(jar for jar in sorted(JARS.glob("*.jar")) if not _SERVER_JARS.match(jar.name))]
    class_path = os.pathsep.join(map(str, libraries))
    source = HERE / "scala" / "Errors.scala"
    inputs = [*(jar.name for jar in libraries), source.read_text()]
    classes = _build_once("scala", inputs, lambda to: _compile_scala(java, class_path, source, to))
    return ScalaClient(java, f"{classes}{os.pathsep}{class_path}")


def _build_once(language: str, inputs: Sequence[str], build: Callable[[Path], object]) -> Path:
    """Return a directory in the user's cache directory with what a function builds from the inputs."""
    key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()[:12]
    path = user_cache() / "clients" / language / key
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as directory:
            built = Path(directory, "built")
            built.mkdir()
            build(built)
            with contextlib.suppress(OSError):  # a concurrent run was faster
                built.rename(path)
    return path


def _compile_scala(java: str, class_path: str, source: Path, directory: Path) -> None:
    names = ("scala-compiler-*", "scala-reflect-*", "scala-library-*", "jline-*.jar", "jna-*.jar")
    compiler = os.pathsep.join(str(jar) for name in names for jar in JARS.glob(name))
    options = ["-nowarn", "-d", directory, "-cp", class_path, source]
    run_program([java, *QUICK_JAVA, "-cp", compiler, "scala.tools.nsc.Main", *options])


def run_program(
    command: Sequence[object],
    text: str = "",
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
    seconds: float = RUN_SECONDS,
) -> str:
    """Run a program to its end, and return its output."""
    done = subprocess.run(
        list(map(str, command)), input=text, cwd=cwd, env={**os.environ, **(variables or {})},
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
