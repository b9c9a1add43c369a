"""The virtual time of simulations."""

from tests.simulation.schedule import Process, Schedule


def test_paused_process_continues_when_its_pause_ends() -> None:
    """A pause that another one extends, and that ends early, postpones nothing any longer."""
    schedule = Schedule(1)
    process = Process("paused", schedule, schedule.random)
    done: list[tuple[str, float]] = []
    for name, seconds in (("first", 2.0), ("second", 6.0), ("third", 30.0)):
        schedule.at(seconds, lambda name=name: done.append((name, schedule.now)), process)
    process.pause(5.0)
    schedule.run_until(3.0)
    process.pause(17.0)
    schedule.run_until(10.0)
    process.resume()
    schedule.run_until(40.0)
    assert done == [("first", 10.0), ("second", 10.0), ("third", 30.0)]
