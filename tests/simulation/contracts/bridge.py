"""Access from real threads to a simulated API server in a thread of its own.

The contract test suites are written for real stores: they call from threads, and wait in real time. To hold the model
to the same tests, their calls become workers of one schedule. Concurrent calls take turns in virtual time, as in a
simulation.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from greenlet import GreenletExit

from tests.simulation import threads
from tests.simulation.api_server import ApiServer
from tests.simulation.network import Network
from tests.simulation.records import ModelLeases, ModelSessionRecords
from tests.simulation.schedule import Process, Schedule
from workspace.identifiers import Principal, RecordName, ReplicaId, SessionUuid
from workspace.leases import RenewalMark
from workspace.record_store import RecordsEvent, StoredRecord, Version
from workspace.records import SessionRecord

_Result = TypeVar("_Result")
_POLL_SECONDS = 0.01
_DEADLINE_SECONDS = 120.0


class ModelClosedError(Exception):
    """Work of a model did not end before the model."""


class Model:
    """A simulated API server and the thread that runs it; a context manager."""

    def __init__(self, *, lists_one_by_one: bool = False) -> None:
        self.api = ApiServer()
        self._lists_one_by_one = lists_one_by_one
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], None]]] = queue.SimpleQueue()
        self._is_closing = self._is_closed = False
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def __enter__(self) -> "Model":
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing = True
        self._thread.join()
        self._is_closed = True
        self._refuse_calls()

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Run work that blocks in virtual time, from any thread, and return its result.

        Raises:
            AssertionError: If it does not end. The message contains the state of the model.
        """
        future = self.submit(work)
        try:
            return future.result(_DEADLINE_SECONDS)
        except TimeoutError as error:
            if future.done():  # the work has raised it
                raise
            process = self._process
            state = f"{process.workers}, dead: {process.is_dead}, alive: {self._thread.is_alive()}"
            raise AssertionError(f"{work} has not ended. {process.schedule.describe()}, {state}") from error

    def submit(self, work: Callable[[], _Result]) -> "Future[_Result]":
        future: Future[_Result] = Future()

        def settle() -> None:
            try:
                future.set_result(work())
            except GreenletExit:
                future.set_exception(ModelClosedError())
                raise
            except Exception as error:  # noqa: BLE001 - the caller of the future gets it
                future.set_exception(error)

        self._calls.put((future, settle))
        if self._is_closed:
            self._refuse_calls()
        return future

    def set_unreachable(self, is_unreachable: bool) -> None:
        """Make the API server unreachable, or reachable again."""
        self._network.down_until = {self.api.name: float("inf")} if is_unreachable else {}

    def records(self) -> ModelSessionRecords:
        return ModelSessionRecords(self._process, self.api, self._network, lists_one_by_one=self._lists_one_by_one)

    def leases(self) -> ModelLeases:
        return ModelLeases(self._process, self.api, self._network)

    def _run(self) -> None:
        schedule = Schedule(0)
        self._process = Process("model", schedule, schedule.random)
        self._network = Network(schedule, lambda *_: None, lambda: (), lambda process: None)
        threads.activate(schedule)
        self._is_ready.set()
        try:
            while not self._is_closing:
                with suppress(queue.Empty):
                    _, settle = self._calls.get(timeout=_POLL_SECONDS / 10)
                    self._process.start(settle)
                schedule.run_until(schedule.now + 1.0)
        finally:
            schedule.close([self._process])
            threads.deactivate()

    def _refuse_calls(self) -> None:
        """Refuse the calls that the thread of the model no longer takes."""
        with suppress(queue.Empty):
            while True:
                future, _ = self._calls.get_nowait()
                future.set_exception(ModelClosedError())


class BridgedRecords:
    """Implementation of :class:`workspace.record_store.SessionRecords` that calls a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._records = model.records()

    def create(self, record: SessionRecord) -> StoredRecord:
        return self._model.call(lambda: self._records.create(record))

    def read(self, name: RecordName) -> StoredRecord:
        return self._model.call(lambda: self._records.read(name))

    def list(self) -> Sequence[StoredRecord]:
        return self._model.call(self._records.list)

    def find(self, session_uuid: SessionUuid) -> StoredRecord | None:
        return self._model.call(lambda: self._records.find(session_uuid))

    def list_of_principal(self, principal: Principal) -> Sequence[StoredRecord]:
        return self._model.call(lambda: self._records.list_of_principal(principal))

    def list_held(self, replica: ReplicaId) -> Sequence[StoredRecord]:
        return self._model.call(lambda: self._records.list_held(replica))

    def replace(self, record: SessionRecord, version: Version) -> StoredRecord:
        return self._model.call(lambda: self._records.replace(record, version))

    def delete(self, name: RecordName, version: Version) -> None:
        self._model.call(lambda: self._records.delete(name, version))

    def watch(self, stop: threading.Event, replica: ReplicaId | None = None) -> Iterator[RecordsEvent]:
        events: queue.SimpleQueue[RecordsEvent] = queue.SimpleQueue()
        inner: Any = threads.ModelEvent()

        def follow() -> None:
            for event in self._records.watch(inner, replica):
                events.put(event)

        following = self._model.submit(follow)
        while not stop.is_set():
            try:
                yield events.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
        with suppress(ModelClosedError):
            self._model.call(inner.set)
            following.result()


class BridgedLeases:
    """Implementation of :class:`workspace.leases.Leases` that calls a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._leases = model.leases()

    def renew(self, replica: ReplicaId) -> None:
        self._model.call(lambda: self._leases.renew(replica))

    def list(self) -> Mapping[ReplicaId, RenewalMark]:
        return self._model.call(self._leases.list)

    def stop(self, replica: ReplicaId) -> None:
        self._model.call(lambda: self._leases.stop(replica))

    def delete(self, replica: ReplicaId) -> None:
        self._model.call(lambda: self._leases.delete(replica))

    def check_writable(self) -> None:
        self._model.call(self._leases.check_writable)
