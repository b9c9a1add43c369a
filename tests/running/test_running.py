"""How runs are divided into tiers, scheduled, measured and reported."""

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.running.durations import Cost, Record
from tests.running.measuring import summary
from tests.running.progress import Estimate, clock
from tests.running.scheduling import directory_costs, directory_of, is_waiting, next_directory, unit_of

REPOSITORY = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.mark.slow
def test_slow():
    pass

def test_quick():
    pass

def test_that_fails():
    assert 1 == 2, "an explanation"
"""
RECORD = Record(
    elapsed_seconds=100.0,
    files={"a/test_1.py": Cost(80.0, 10.0), "a/test_2.py": Cost(20.0, 20.0), "b/test_1.py": Cost(10.0, 9.0)},
)


def run(directory: Path, *options: str, **environment: str) -> str:
    """Run the tests with the plugins of this folder, and return the output."""
    (directory / "test_some.py").write_text(TESTS)
    plugins = ["tiers", "measuring", "scheduling", "failures"]
    command = [sys.executable, "-m", "pytest", *(f"-ptests.running.{name}" for name in plugins)]
    command += ["-pno:asyncio", "-pno:hypothesispytest"]  # which take half of the time
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LODGE_"))}
    variables |= {"PYTHONPATH": str(REPOSITORY), "XDG_CACHE_HOME": str(directory / "cache")}
    command += ["-c", os.devnull, "--rootdir", str(directory), *options]
    done = subprocess.run(
        command, env=variables | environment, cwd=directory, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_tier_is_recorded_and_compared_with_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run has one process, and the second one a worker."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for options, is_new in (((), True), (("-n", "1"), False)):
        failures = tmp_path / f"failures-{is_new}.txt"
        output = run(tmp_path, "--tier=quick", *options, LODGE_FAILURES=str(failures))
        assert "1 failed, 1 passed" in output
        assert "all files, one after the other" in output
        assert (" new " in output) == is_new
        record = Record.read("quick")
        assert list(record.files) == ["test_some.py"]
        assert record.elapsed_seconds > 0
        name, reason, repeat = failures.read_text().splitlines()
        assert name == "FAILED test_some.py::test_that_fails"
        assert reason == "  call: AssertionError: an explanation"
        assert repeat.endswith("-m pytest test_some.py::test_that_fails")


def test_run_of_chosen_tests_has_no_tier_and_is_not_recorded(tmp_path: Path) -> None:
    output = run(tmp_path)
    assert "1 failed, 2 passed" in output
    assert "slowest files" not in output
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("options", [("test_some.py",), ("-k", "slow"), ("-m", "slow")])
def test_part_of_a_tier_is_not_recorded(tmp_path: Path, options: Sequence[str]) -> None:
    output = run(tmp_path, "--tier=slow", *options)
    assert "1 passed" in output
    assert "slowest files" in output
    assert not (tmp_path / "cache").exists()


def test_collection_alone_is_not_recorded(tmp_path: Path) -> None:
    assert "tests collected" in run(tmp_path, "--tier=quick", "--collect-only")
    assert not (tmp_path / "cache").exists()


def test_damaged_record_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    RECORD.write("special")
    assert Record.read("special") == RECORD
    (tmp_path / "lodge" / "tests" / "durations.json").write_text("{")
    assert Record.read("special") == Record()


def test_files_without_a_record_have_the_committed_durations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    RECORD.write("slow")
    files = Record.expected("slow").files
    assert files.items() > RECORD.files.items()
    assert "tests/installation/test_upgrades.py" in files


def test_summary_names_slowest_files_first() -> None:
    last = Record(50.0, {"a/test_1.py": Cost(40.0, 5.0)})
    assert summary(RECORD, last) == [
        "  seconds    before processor",
        "       80        40        10 a/test_1.py",
        "       20       new        20 a/test_2.py",
        "       10       new         9 b/test_1.py",
        "      110        40        39 all files, one after the other",
        "      100        50           the run",
    ]


def test_directory_waits_if_it_uses_little_of_a_processor() -> None:
    tests = ["a/test_1.py::test_x", "a/test_1.py::test_y", "a/test_2.py::test_x", "b/test_1.py::test_x"]
    costs = directory_costs(tests, RECORD)
    assert costs == {"a": Cost(100.0, 30.0), "b": Cost(10.0, 9.0)}
    assert [is_waiting(costs[name]) for name in "ab"] == [True, False]


def test_all_workers_find_the_same_costs() -> None:
    """Floating-point sums depend on the order of the files, and the order of a set on the hashes of the process."""
    code = """if True:
        from tests.running.durations import Cost, Record
        from tests.running.scheduling import directory_costs

        files = {f"a/test_{number}.py": Cost(1 / (number + 3), 1 / (number + 7)) for number in range(40)}
        print(directory_costs(files, Record(files=files)))
    """
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in range(4)
    }
    assert len(found) == 1


def test_run_in_which_no_test_ran_is_not_recorded(tmp_path: Path) -> None:
    """No test runs if two workers collect different tests."""
    (tmp_path / "conftest.py").write_text("""if True:
        import os

        def pytest_collection_modifyitems(items):
            if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
                items.pop()
    """)
    output = run(tmp_path, "--tier=quick", "-n", "2")
    assert "Different tests were collected" in output
    assert not (tmp_path / "cache").exists()


def test_directories_that_share_nodes_count_as_one() -> None:
    tests = [f"tests/installation{rest}/test_x.py::test_x" for rest in ("", "/default_values", "s")]
    assert [directory_of(name) for name in tests] == ["tests/installation"] * 2 + ["tests/installations"]
    assert [unit_of(name) for name in tests] == ["tests/installation"] * 2 + ["tests/installations/test_x.py"]


def test_worker_stays_in_its_directory_and_helps_others_at_last() -> None:
    """The directories that wait are `c` and `d`."""
    remaining = {"a": Cost(9.0, 9.0), "b": Cost(8.0, 8.0), "c": Cost(7.0, 0.0), "d": Cost(6.0, 0.0)}
    assert next_directory(remaining, "d", {"a"}, waits=False) == "d"
    assert next_directory(remaining, None, {"a"}, waits=False) == "b"
    assert next_directory(remaining, "x", {"a"}, waits=True) == "c"
    assert next_directory(remaining, "x", {"c", "d"}, waits=True) == "a"
    assert next_directory(remaining, None, {"a", "b", "c", "d"}, waits=True) == "c"


def test_files_of_a_directory_go_to_several_workers_if_nothing_else_is_left(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"test_{number}.py").write_text("""if True:
            import os
            import time
            from pathlib import Path

            def test_other_worker_runs_too():
                Path(__file__).with_suffix("." + os.environ["PYTEST_XDIST_WORKER"]).touch()
                deadline = time.monotonic() + 60
                while len({path.suffix for path in Path(__file__).parent.glob("test_?.gw?")}) < 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
        """)
    assert "2 passed" in run(tmp_path, "-n", "2", "test_1.py", "test_2.py")


def test_remaining_time_follows_the_record_and_then_the_run() -> None:
    tests = Counter({"a/test_1.py": 8, "a/test_2.py": 2})
    estimate = Estimate(tests, RECORD)
    assert estimate.remaining_seconds(0.0) == 100.0
    for _ in range(5):
        estimate.add("a/test_1.py")
    assert estimate.share == 0.5
    assert estimate.remaining_seconds(30.0) == 30.0
    assert Estimate(tests, Record()).remaining_seconds(0.0) is None


def test_garbage_collector_leaves_out_collected_tests() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_clock_has_minutes_and_seconds() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3600)] == ["0:00", "0:59", "1:01", "60:00"]
