"""The command ``lodge serve``: starts Spark, the gateway and the reaper, and replaces a gateway that is lost.

The components are processes of their own. Spark starts first, then the gateway, and the reaper when the gateway is
ready. The gateway stops first, then the reaper, and Spark last. Therefore, the backend is still running when the
gateway ends its sessions.

======================  ==========================================================
Signal                  Effect
======================  ==========================================================
SIGINT, SIGTERM         Stops everything. A second signal has no further effect.
SIGHUP                  Reaches the gateway, which reloads its configuration.
======================  ==========================================================

Guarantees:

1. A gateway that ends, or whose event loop does not respond for the stall limit (:mod:`lodge.pulse`), is replaced by a
   new one at the same addresses. Nothing that happens in the process of the gateway can prevent this.
2. The new gateway starts after the old one has ended. It stops the lease of the old one, so that the sessions are
   adopted at once, by itself or by other replicas.
3. The local Spark server outlives a gateway, so the sessions and their tables remain.
4. The new gateway knows on which requests the old one worked when it was lost. Those that may be the cause are refused
   (:mod:`gateway.sessions.suspicions`).
5. While it watches, this process uses no storage and no gRPC, so it cannot get stuck where a gateway does.
6. After a reload was requested, each process that starts reads the settings again. Settings that need a restart keep
   their values.
7. A stop always ends. If a gateway has not stopped ``STOP_MARGIN_SECONDS`` after the drain timeout, for example because
   its storage hangs, this process kills all others, and ends even if the kernel does not let them end yet.

Not guaranteed: that anything continues if this process is killed. All its processes then die.

Source: [architecture "The watcher"].
"""

import asyncio
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import structlog

from gateway.blocking_work.current_work import CurrentWork
from gateway.sessions.life_signs import Identity, LifeSigns
from gateway.sessions.suspicions import Loss, Suspicion, suspect
from lodge.children import REQUESTS, Child, ForkedChild, stop_child
from lodge.command_errors import LodgeError, StartError, report
from lodge.embedded_spark import EmbeddedSpark, StoppedError, embedded_spark
from lodge.kept_values import KeptValue
from lodge.logs import set_up_logs
from lodge.memory_kills import MemoryKills
from lodge.memory_protection import forbid_core_dumps
from lodge.pulse import ProcessState, Pulse
from lodge.reaper_process import environment_for
from lodge.settings import ServeSettings
from lodge.workspace_settings import workspaces_from
from workspace.leases import UNRESPONSIVE_LEASES
from workspace.workspaces import Workspaces

_STOP = frozenset({signal.SIGINT, signal.SIGTERM})
_SIGNALS = _STOP | {signal.SIGHUP, signal.SIGCHLD}
_MOST_SUSPICIONS = 1000
_FAULTS = frozenset({signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS})
_PERIOD_SECONDS = 0.5
_SLOW_SECONDS = 60.0
"""How long a gateway may take without a sign of life while it starts or stops, if the stall limit is not longer."""

STOP_MARGIN_SECONDS = 30.0
"""How long a gateway may take to stop beyond the drain timeout. It leaves its sessions and ends its threads then."""

_REAPER_STOP_SECONDS = 10
_HEALTHY_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class KeptProcess:
    """A process that is started again when it ends.

    If it ends soon after its start, the next start is delayed.

    Args:
        start: A function that starts it.

    Attributes:
        process: The process. None if it does not run.
    """

    def __init__(self, start: Callable[[], Child]) -> None:
        self._start = start
        self._pause_seconds = 0.0
        self._due_seconds = 0.0
        self._started_seconds = 0.0
        self.process: Child | None = None

    def start_if_due(self) -> Child | None:
        """Start the process if it does not run and its pause is over, and return it. None if it was not started.

        Raises:
            OSError: If it cannot be started. It is tried again after a pause.
        """
        now_seconds = time.monotonic()
        if self.process is not None or now_seconds < self._due_seconds:
            return None
        self._started_seconds = now_seconds
        try:
            self.process = self._start()
        except OSError:
            self._delay(now_seconds)
            raise
        return self.process

    def take_end(self) -> tuple[int, int] | None:
        """Return the id and the exit status of a process that has ended, once. Otherwise None."""
        if self.process is None or (status := self.process.poll()) is None:
            return None
        pid, self.process = self.process.pid, None
        self._delay(time.monotonic())
        return pid, status

    def _delay(self, now_seconds: float) -> None:
        if now_seconds - self._started_seconds >= _HEALTHY_SECONDS:
            self._pause_seconds = 0.0
        self._due_seconds = now_seconds + self._pause_seconds
        self._pause_seconds = min(max(2 * self._pause_seconds, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)


class Watcher:
    """The processes of ``lodge serve``.

    Args:
        settings: The settings at the start.
        read_settings: A function that reads the settings again. It raises SettingError if a setting is invalid.
    """

    def __init__(self, settings: ServeSettings, read_settings: Callable[[], ServeSettings]) -> None:
        self._settings = settings
        self._workspaces = workspaces_from(settings)
        self._read_settings = read_settings
        self._signs = LifeSigns()
        self._work = CurrentWork()
        self._suspicions: Sequence[Suspicion] = ()
        self._was_reload_requested = False
        self._accepted = KeptValue()
        self._sources = KeptValue()
        self._root_ids = KeptValue()
        self._before: Identity | None = None
        self._pulse = Pulse(_PERIOD_SECONDS)
        self._memory_kills = MemoryKills()
        self._killed: int | None = None
        self._stop_due_seconds = float("inf")
        self._loss_of_killed = Loss.STUCK
        self._gateway = KeptProcess(self._start_gateway)
        self._reaper = KeptProcess(self._start_reaper)
        self._spark: EmbeddedSpark | None = None
        self._spark_token = secrets.token_urlsafe(32)

    def run(self) -> int:
        """Run until SIGINT or SIGTERM, and return the exit status.

        Raises:
            StartError: If the local Spark server does not start, or stops.
        """
        forbid_core_dumps()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by a parent, no child can be awaited
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        set_up_logs(self._settings.log_level)
        with ExitStack() as stack:
            if not self._settings.backend and not self._settings.impersonation:
                memory, message_bytes = self._settings.spark_driver_memory, self._settings.max_message_bytes
                try:
                    self._spark = stack.enter_context(
                        embedded_spark(memory, message_bytes, self._spark_token, _is_stop_pending)
                    )
                except StoppedError:
                    return self._stopped()
            stack.callback(self._stop_reaper)
            stack.callback(self._kill_gateway)
            status = self._watch()
        return status or self._stopped()

    def _watch(self) -> int:
        """Watch the processes until the gateway has stopped, and return the exit status.

        Raises:
            StartError: If the local Spark server has stopped.
        """
        failure: StartError | None = None
        while not self._signs.is_stopping or self._gateway.process is not None:
            if not self._signs.is_stopping:
                self._start_gateway_if_due()
                if self._settings.reaper and self._has_been_ready():
                    self._keep_reaper()
            self._take_signal()
            self._memory_kills.observe(time.monotonic())
            if self._spark is not None and not self._signs.is_stopping:
                try:
                    self._spark.require_running()
                except StartError as error:
                    failure = error
                    self._stop_gateway()
            if (ended := self._gateway.take_end()) is None:
                if self._is_stop_overdue():
                    self._give_up_stop()
                    break
                self._kill_stuck_gateway()
                continue
            pid, status = ended
            if failure is not None:
                raise failure
            if self._signs.is_stopping:
                return 0 if status == 0 else max(status, 1)
            if not self._has_been_ready():  # it has said why it cannot start
                return max(status, 1)
            _log.error("gateway_process_died", pid=pid, exit_status=status)
            self._take_suspicions(pid, status)
            self._before = self._signs.identity or self._before
            self._signs.count_restart()
        if failure is not None:
            raise failure
        return 0 if self._gateway.process is None else 1

    def _take_suspicions(self, pid: int, status: int) -> None:
        """Find out on which requests a gateway worked that was lost. The next gateway writes them to the records."""
        if self._signs.identity != self._before:  # it was ready, so it has written those of the gateway before it
            self._suspicions = ()
        loss = Loss.CRASHED if -status in _FAULTS else Loss.KILLED
        if pid == self._killed:
            loss = self._loss_of_killed
        elif -status == signal.SIGKILL and self._memory_kills.have_happened():
            loss = Loss.OUT_OF_MEMORY
        found = suspect(self._work.read(), loss, secrets.token_hex(8))
        self._suspicions = (*self._suspicions, *found)[-_MOST_SUSPICIONS:]
        self._work.clear()

    def _has_been_ready(self) -> bool:
        return self._before is not None or self._signs.identity is not None

    @property
    def _stop_seconds(self) -> float:
        """How long a gateway may take to stop."""
        return self._settings.drain_timeout.total_seconds() + STOP_MARGIN_SECONDS

    def _start_gateway_if_due(self) -> None:
        try:
            started = self._gateway.start_if_due()
        except OSError as error:
            _log.error("gateway_process_failed", reason=str(error))
            return
        if started is not None:
            self._pulse = Pulse(_PERIOD_SECONDS)
            if self._before is not None:
                _log.warning("gateway_process_restarted", pid=started.pid)

    def _keep_reaper(self) -> None:
        if (ended := self._reaper.take_end()) is not None:
            pid, status = ended
            _log.error("reaper_process_died", pid=pid, exit_status=status)
        try:
            started = self._reaper.start_if_due()
        except OSError as error:
            _log.error("reaper_process_failed", reason=str(error))
            return
        if started is not None:
            _log.info("reaper_process_started", pid=started.pid)

    def _take_signal(self) -> None:
        """Wait for a signal, at most for a period, and obey it."""
        received = signal.sigtimedwait(_SIGNALS, _PERIOD_SECONDS)
        if received is None:
            return
        if received.si_signo in _STOP and not self._signs.is_stopping:
            _log.info("lodge_stopping")
            self._stop_gateway()
        elif received.si_signo == signal.SIGHUP:
            self._was_reload_requested = True
            if self._gateway.process is not None:
                self._gateway.process.send_signal(signal.SIGHUP)

    def _kill_stuck_gateway(self) -> None:
        process = self._gateway.process
        if process is None or process.pid == self._killed:
            return
        limit_seconds = self._settings.stall_limit.total_seconds()
        lease_seconds = self._settings.lease_duration.total_seconds()
        starved_limit_seconds = max(limit_seconds, UNRESPONSIVE_LEASES * lease_seconds)  # then, the lease would lapse
        identity = self._signs.identity
        if identity is None or identity == self._before or self._signs.is_stopping:
            limit_seconds, starved_limit_seconds = max(limit_seconds, _SLOW_SECONDS), float("inf")
        stuck_seconds = self._pulse.observe(self._signs.beats, lambda: ProcessState.read(process.pid), time.monotonic())
        is_stuck = stuck_seconds >= limit_seconds
        if is_stuck or self._pulse.silent_seconds >= starved_limit_seconds:
            _log.error("gateway_stuck", pid=process.pid, seconds=round(self._pulse.silent_seconds, 1))
            self._killed = process.pid
            if ProcessState.read(process.pid).is_stopped:
                self._loss_of_killed = Loss.KILLED
            else:
                self._loss_of_killed = Loss.STUCK if is_stuck else Loss.STARVED
            process.send_signal(signal.SIGKILL)

    def _is_stop_overdue(self) -> bool:
        return self._gateway.process is not None and time.monotonic() >= self._stop_due_seconds

    def _give_up_stop(self) -> None:
        """Kill the reaper of a gateway that has not stopped in time.

        A process that waits for storage cannot end while another one waits for the same file.
        """
        if self._gateway.process is not None:
            _log.error("gateway_not_stopped", pid=self._gateway.process.pid, seconds=self._stop_seconds)
        if self._reaper.process is not None:
            self._reaper.process.send_signal(signal.SIGKILL)

    def _stop_gateway(self) -> None:
        self._signs.begin_stop()
        self._stop_due_seconds = time.monotonic() + self._stop_seconds
        if self._gateway.process is not None:
            self._gateway.process.send_signal(signal.SIGTERM)

    def _kill_gateway(self) -> None:
        if self._gateway.process is not None:
            stop_child(self._gateway.process, 0)

    def _stop_reaper(self) -> None:
        if self._reaper.process is not None:
            stop_child(self._reaper.process, _REAPER_STOP_SECONDS)

    def _stopped(self) -> int:
        _log.info("lodge_stopped")
        return 0

    def _start_gateway(self) -> Child:
        return ForkedChild(lambda: _reported(self._run_gateway), "lodge-gateway", blocked=REQUESTS)

    def _start_reaper(self) -> Child:
        return ForkedChild(lambda: _reported(self._become_reaper), "lodge-reaper")

    def _current_settings(self) -> tuple[ServeSettings, Workspaces]:
        """Return the settings for a process that starts now: those that a gateway accepted last."""
        accepted: tuple[ServeSettings, Workspaces] | None = self._accepted.read()
        return accepted or (self._settings, self._workspaces)

    def _run_gateway(self) -> None:
        """Run the gateway, in the process that was forked for it."""
        from lodge import tuning  # noqa: PLC0415

        tuning.leave_out_pandas()
        tuning.start_grpc()

        from gateway.reloading.source_memory import SourceMemory  # noqa: PLC0415
        from lodge.configuration import Configuration  # noqa: PLC0415
        from lodge.serve import FromWatcher, LocalSpark, serve  # noqa: PLC0415

        tuning.freeze_loaded_objects()
        tuning.switch_threads_often()
        output = set_up_logs(self._settings.log_level)
        spark = None if self._spark is None else LocalSpark(self._spark.address, self._spark_token)
        from_watcher = FromWatcher(
            self._signs,
            self._work,
            self._suspicions,
            spark,
            self._was_reload_requested,
            self._root_ids,
        )
        memory = SourceMemory(self._sources)
        configuration = Configuration(*self._current_settings(), self._read_settings, self._accepted.write, memory)
        asyncio.run(serve(configuration, output, from_watcher))

    def _become_reaper(self) -> None:
        """Run the reaper in the process that was forked for it."""
        environment = environment_for(*self._current_settings(), self._root_ids.read())
        os.execve(sys.executable, [sys.executable, "-m", "lodge", "reap"], environment)  # noqa: S606 - no shell


def _reported(run: Callable[[], None]) -> int:
    """Run a function, print its error for the person at the terminal, and return the exit status."""
    try:
        run()
    except LodgeError as error:
        return report(error)
    return 0


def _is_stop_pending() -> bool:
    return bool(signal.sigpending() & _STOP)
