"""Ends because of a lack of memory are counted by the kernel."""

from pathlib import Path

from lodge.memory_kills import MemoryKills


def test_kill_of_the_last_seconds_is_noticed(tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    counters.write_text("oom_kill_other 7\noom_kill 2\n")
    kills = MemoryKills(counters)
    assert not kills.have_happened()
    kills.observe(0)
    assert not kills.have_happened()
    counters.write_text("oom_kill_other 7\noom_kill 3\n")
    assert kills.have_happened()
    kills.observe(14)
    assert kills.have_happened(), "the process needs time to free its memory"
    kills.observe(16)
    assert not kills.have_happened()


def test_counter_of_this_kernel_is_read() -> None:
    """The file has the form that the other test writes."""
    assert any(line.split()[0] == "oom_kill" for line in Path("/proc/vmstat").read_text().splitlines())
    kills = MemoryKills()
    kills.observe(0)
    assert not kills.have_happened()


def test_kernel_without_the_counter_kills_nobody(tmp_path: Path) -> None:
    kills = MemoryKills(tmp_path / "missing")
    kills.observe(0)
    assert not kills.have_happened()
