"""The cost of removing session locations, compared with ``rm -rf``.

Both remove the same trees in the same run. The trees look like tables: few directories with very many files, very many
directories, deep trees, and many small tables. Each pair runs in turn, in an order that changes from round to round. A
figure is the median of the ratios of the rounds. The measured action is the purge of a location in the trash. Moving it
there takes one rename.

    python benchmarks/removal.py [--rounds N] [--files N] [--directory PATH]
"""

import argparse
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from workspace.files.session_locations import FileSessionLocations
from workspace.identifiers import SessionUuid

AIM = 1.3

Build = Callable[[Path, int], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds for each tree")
    parser.add_argument("--files", type=int, default=100_000, help="files in each tree")
    parser.add_argument("--directory", type=Path, help="directory of the trees, to measure another file system")
    arguments = parser.parse_args()
    bench_removal(arguments.rounds, arguments.files, arguments.directory)


def bench_removal(rounds: int, files: int, directory: Path | None = None) -> None:
    """Print the ratio for each kind of tree."""
    trees: dict[str, Build] = {
        "4 tables of many files": lambda root, number: in_tables(root, number, 4),
        "1 table of many files": lambda root, number: in_tables(root, number, 1),
        "100 tables": lambda root, number: in_tables(root, number, 100),
        "1 table of many partitions, 2 files each": lambda root, number: in_tables(root, number, number // 2),
        "partitions in partitions, 8 levels": in_levels,
    }
    for name, build in trees.items():
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            pairs = [compare(Path(scratch), build, files, number) for number in range(rounds)]
        ratio = statistics.median(mine / theirs for theirs, mine in pairs)
        print(
            f"{name:42} rm -rf {statistics.median(a for a, _ in pairs):6.2f} s   Lodge "
            f"{statistics.median(b for _, b in pairs):6.2f} s   ratio {ratio:5.3f}   (aim: at most {AIM})",
            flush=True,
        )


def compare(scratch: Path, build: Build, files: int, number: int) -> tuple[float, float]:
    """Return the seconds that rm and Lodge need for the same tree."""
    locations = FileSessionLocations(scratch / "workspace")
    locations.initialise()
    session = SessionUuid(str(uuid.uuid4()))
    beside = scratch / "beside"
    for place in (beside, locations.create(session)):
        place.mkdir(exist_ok=True)
        build(place, files)
    locations.move_to_trash(session)
    subprocess.run(["sync", "-f", scratch], check=True)  # noqa: S607 - neither pays for the writes of the other

    def purge() -> None:
        for entry in locations.trash_of(session):
            assert locations.purge(entry)

    ways = [
        lambda: subprocess.run(["rm", "-rf", beside], check=True),  # noqa: S607
        purge,
    ]
    times = [0.0, 0.0]
    for way in (0, 1) if number % 2 else (1, 0):
        begun = time.perf_counter()
        ways[way]()
        times[way] = time.perf_counter() - begun
    assert not locations.trash()
    assert not beside.exists()
    return times[0], times[1]


def in_tables(root: Path, files: int, tables: int) -> None:
    """Fill a number of directories with the same number of files each."""
    for _ in range(tables):
        table = root / str(uuid.uuid4())
        table.mkdir()
        fill(table, files // tables)


def in_levels(root: Path, files: int) -> None:
    """Fill a tree of 8 levels, 3 directories in each, with files in the last level."""
    leaves = [root]
    for level in range(8):
        leaves = [leaf / f"p{level}={value}" for leaf in leaves for value in range(3)]
        for leaf in leaves:
            leaf.mkdir()
    for leaf in leaves:
        fill(leaf, files // len(leaves))


def fill(directory: Path, files: int) -> None:
    for number in range(files):
        (directory / f"part-{number:05}-{uuid.uuid4()}.snappy.parquet").write_bytes(b"data")


if __name__ == "__main__":
    main()
