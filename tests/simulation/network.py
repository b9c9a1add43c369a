"""The network between a process and the services that it calls: delays and faults.

The simulated API server and storage execute each request in one step, as real ones appear to. The difficulty of a
distributed system lies around that step: before the request arrives, and before its response does. This module
simulates it in one place, for each call of either service.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tests.simulation.faults import NO_FAULTS, Fault
from tests.simulation.schedule import Process, Schedule

_Result = TypeVar("_Result")

WRITES = frozenset(
    {
        "create location",
        "create record",
        "delete lease",
        "delete record",
        "move location to trash",
        "purge",
        "remove finalizer",
        "remove table",
        "renew lease",
        "stop lease",
        "take lead",
        "update record",
    }
)
"""The calls that change what a service stores."""


class Service(Protocol):
    """A service that processes call: the API server or the storage."""

    name: str

    def create_unavailable_error(self, reason: str) -> Exception:
        """Return the error of a call that does not reach the service."""
        ...


class Network:
    """Carries calls, and injects faults into them.

    Args:
        schedule: Gives the time and the random choices.
        on_fault: Called with each fault.
        others: Returns the processes that may fail while another one calls.
        crash: Ends a process.
    """

    def __init__(
        self,
        schedule: Schedule,
        on_fault: Callable[[Process, Fault, str], object],
        others: Callable[[], Sequence[Process]],
        crash: Callable[[Process], object],
    ) -> None:
        self._schedule = schedule
        self._random = schedule.random
        self._on_fault = on_fault
        self._others = others
        self._crash = crash
        self.fault_plan = NO_FAULTS
        self.down_until: dict[str, float] = {}
        self.read_only_until: dict[str, float] = {}
        self.hung_until: dict[str, float] = {}

    def call(self, process: Process, service: Service, operation: str, effect: Callable[[], _Result]) -> _Result:
        """Send a request, let it take effect in one step, and return its response.

        Raises:
            Exception: The error of the effect, or the service's error if the network fails before or after the effect.
        """
        schedule, chance = self._schedule, self._random.random
        fault = self._choose_fault(process, operation)
        if fault is not None:
            self._on_fault(process, fault, operation)
        schedule.wait(self._delay())
        if fault is not None:
            self._inject_before(process, service, fault)
        while self.hung_until.get(service.name, 0.0) > schedule.now:
            schedule.wait(_HANG_CHECK_SECONDS)
        self._check_connection(process, service)
        if operation in WRITES and self.is_read_only(service):
            raise service.create_unavailable_error("it is read-only")
        failure = None
        try:
            result = effect()
        except Exception as error:  # noqa: BLE001 - any error is a response, which travels back
            failure = error
        if fault is not None:
            self._inject_after(process, service, fault)
        if chance() < _SLOW_RESPONSE_SHARE:
            schedule.wait(self._delay())
            self._check_connection(process, service)
        if failure is not None:
            raise failure
        return result

    def is_read_only(self, service: Service) -> bool:
        """Return whether a service refuses writes at this moment."""
        return self.read_only_until.get(service.name, 0.0) > self._schedule.now

    def _choose_fault(self, process: Process, operation: str) -> Fault | None:
        fault_plan, chance = self.fault_plan, self._random.random
        if not fault_plan.rate:
            return None
        target = fault_plan.targeted.get(operation)
        if target is not None and process.name.startswith(target.process_prefix) and chance() < target.rate:
            return target.fault
        return self._random.choice(fault_plan.faults) if chance() < fault_plan.rate else None

    def duration(self) -> float:
        """Return a random duration, sometimes longer than each lease and grace period."""
        least = self.fault_plan.shortest_share
        share = least + (1 - least) * self._random.random()
        return self._random.choice((0.05, 0.3, 1.0, 1.0)) * self.fault_plan.longest_seconds * share

    def travel_seconds(self) -> float:
        return self._delay()

    def watch_delay_seconds(self) -> float:
        """Return the time until a watcher learns of a change."""
        longest_seconds = self.fault_plan.longest_watch_delay_seconds
        if longest_seconds and self._random.random() < _SLOW_WATCH_SHARE:
            return self._random.random() * longest_seconds
        return self._delay()

    def _delay(self) -> float:
        chance = self._random.random()
        if chance < 0.8:
            return 0.001 + chance / 100
        return 0.1 * (chance - 0.8) * 5 if chance < 0.98 else 1.0

    def _check_connection(self, process: Process, service: Service) -> None:
        now = self._schedule.now
        if self.down_until.get(service.name, 0.0) > now or process.cut_off_until.get(service.name, 0.0) > now:
            self._schedule.wait(self._random.choice((0.01, 2.0)))
            raise service.create_unavailable_error("it is unreachable")

    def _inject_before(self, process: Process, service: Service, fault: Fault) -> None:
        match fault:
            case Fault.CRASH_BEFORE:
                self._crash(process)
                self._schedule.park_forever()
            case Fault.PAUSE_BEFORE:
                process.pause(self.duration())
                self._schedule.wait(0.0)
            case Fault.STALL_BEFORE:
                self._schedule.wait(self.duration())
            case Fault.REFUSED:
                raise service.create_unavailable_error("it refused the request")
            case Fault.CUT_OFF:
                process.cut_off_until[service.name] = self._schedule.now + self.duration()
            case Fault.OUTAGE:
                self.down_until[service.name] = self._schedule.now + self.duration()
            case Fault.READ_ONLY:
                self.read_only_until[service.name] = self._schedule.now + self.duration()
            case Fault.HANG:
                self.hung_until[service.name] = self._schedule.now + self.duration()
            case Fault.LOOP_STALLS:
                others = [other for other in self._others() if other.name.startswith("gateway")]
                if others:
                    self._random.choice(others).stall_loop(self._random.choice((1.0, 2.0)) * self.duration())
            case Fault.OTHER_CRASHES | Fault.OTHER_PAUSES:
                others = [other for other in self._others() if other is not process]
                if others:
                    other = self._random.choice(others)
                    self._crash(other) if fault is Fault.OTHER_CRASHES else other.pause(self.duration())

    def _inject_after(self, process: Process, service: Service, fault: Fault) -> None:
        match fault:
            case Fault.CRASH_AFTER:
                self._crash(process)
                self._schedule.park_forever()
            case Fault.PAUSE_AFTER:
                process.pause(self.duration())
                self._schedule.wait(0.0)
            case Fault.STALL_AFTER:
                self._schedule.wait(self.duration())
            case Fault.ANSWER_LOST:
                raise service.create_unavailable_error("the response was lost")


_HANG_CHECK_SECONDS = 0.1
_SLOW_RESPONSE_SHARE = 0.15
_SLOW_WATCH_SHARE = 0.3
