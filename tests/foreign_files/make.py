"""Makes the files of ``files/`` again, each by the program that its name begins with.

``python -m tests.foreign_files.make`` runs all writers. With words as arguments, it runs those whose name contains one
of the words. Each writer runs in an environment of its own, with pinned versions.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.maven import fetch_jars

HERE = Path(__file__).parent
FILES = HERE / "files"
WRITERS = HERE / "writers"
OPENED = ("java.base/java.net", "java.base/java.nio")
JAVA_OPTIONS = (
    *("-XX:TieredStopAtLevel=1", "-Xmx2g"),
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),  # Hive uses their private members
    *("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"),  # sets of enums have the same order in each run
)
OLD_PYTHON = "python3.8"

Writer = Callable[[Path], None]
"""A function that runs a writer. Its argument is an empty directory for the environment of the writer."""


def run(*command: str | Path, directory: Path, variables: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, check=True, cwd=directory, env=os.environ | dict(variables or {}))


def python(source: str, *requirements: str, interpreter: str = sys.executable) -> Writer:
    def write(environment: Path) -> None:
        run(interpreter, "-m", "venv", environment, directory=HERE)
        installed = environment / "bin" / "python"
        run(installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements, directory=HERE)
        variables = {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}
        run(installed, WRITERS / source, FILES, directory=environment, variables=variables)

    return write


def java(source: str, pom: str) -> Writer:
    def write(environment: Path) -> None:
        jars = fetch_jars("foreign-files", WRITERS / "java" / pom)
        program = WRITERS / "java" / source
        run("java", *JAVA_OPTIONS, "-cp", f"{jars}/*", program, FILES, directory=environment)

    return write


def go(module: str) -> Writer:
    def write(_: Path) -> None:
        run("go", "run", ".", FILES, directory=WRITERS / "go" / module)

    return write


def rust(environment: Path) -> None:
    variables = {"CARGO_TARGET_DIR": str(environment)}
    run("cargo", "run", "--locked", "--quiet", "--", FILES, directory=WRITERS / "rust", variables=variables)


def node(source: str) -> Writer:
    def write(environment: Path) -> None:
        home = shutil.copytree(WRITERS / "node", environment / "home")
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", directory=home)
        run("node", source, FILES, directory=home)

    return write


BY_NAME: Mapping[str, Writer] = {
    "duckdb": python("duckdb_writer.py", "duckdb==2.0.0"),
    "polars": python("polars_writer.py", "polars==2.1.0"),
    "fastparquet": python("fastparquet_writer.py", "fastparquet==2026.9.0"),
    "clickhouse": python("clickhouse_writer.py", "chdb==4.4.0"),
    "pyorc": python("pyorc_writer.py", "pyorc==0.12.0"),
    "pyarrow 26": python("pyarrow_writer.py", "pyarrow==26.0.1"),
    "pyarrow 14": python("pyarrow_writer.py", "pyarrow==14.0.2", "numpy==1.26.4"),
    "pyarrow 6": python("pyarrow_writer.py", "pyarrow==6.0.1", "numpy==1.24.4", interpreter=OLD_PYTHON),
    "pyarrow 0.17": python("pyarrow_writer.py", "pyarrow==0.17.1", "numpy==1.24.4", interpreter=OLD_PYTHON),
    "parquet java": java("ParquetJavaWriter.java", "parquet_java.xml"),
    "orc java": java("OrcJavaWriter.java", "orc_java.xml"),
    "hive": java("HiveWriter.java", "hive.xml"),
    "parquet go": go("parquet_go"),
    "parquet go of xitongsys": go("parquet_go_of_xitongsys"),
    "arrow go": go("arrow_go"),
    "rust": rust,
    "parquetjs": node("parquetjs_writer.js"),
    "hyparquet": node("hyparquet_writer.js"),
}
"""The writers."""


def chosen_writers(words: Sequence[str]) -> Iterator[str]:
    """Yield the names that contain one of the words, or all names if there are no words."""
    return (name for name in BY_NAME if not words or any(word in name for word in words))


def main(words: Sequence[str]) -> None:
    """Run the writers whose names contain one of the words, or all writers."""
    FILES.mkdir(exist_ok=True)
    for name in chosen_writers(words):
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory() as environment:
            BY_NAME[name](Path(environment))


if __name__ == "__main__":
    main(sys.argv[1:])
