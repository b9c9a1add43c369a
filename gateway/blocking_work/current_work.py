"""The requests on which a gateway works at this moment, in memory that it shares with its watcher.

If a gateway gets stuck or crashes, one of the requests on which it worked at this moment is the likely cause. A gateway
that is stuck can no longer say which. It therefore writes down, before each step of a request, to which request the
step belongs. A request that waits, for example for a backend or the storage, has no step, so usually there is one
request at most.

A step is what the event loop does between two waits, or a call in a thread of a pool.

Guarantees:

1. A step costs two writes to memory: no lock, no system call and no input or output.
2. A gateway that is killed while it writes a note leaves no note that looks valid.
3. A note that was replaced by one of another request is not mistaken for it.

Not guaranteed: that each step is noted. Steps before the session of a request is known are short and belong to no
request. If more than ``_SLOTS`` requests are processed at the same time, further ones are not noted.

Source: [architecture "The watcher"].
"""

import hashlib
import mmap
import re
import struct
import threading
import types
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from workspace.identifiers import RecordName

_DIGEST_BYTES = 16
_DIGESTED_BYTES = 16 * 1024
_PLAN_ID = re.compile(rb"\x0a[\x02-\x0b]\x10[\x80-\xff]{0,9}[\x00-\x7f]")
_CELLS = 512
_SLOTS = 8192
_SLOT_BYTES = 192
_SLOTS_START = _CELLS * 8
_HEADER = struct.Struct("<IIH")
_GENERATION_BITS = 32
_LOOP_CELL = 0

_Result = TypeVar("_Result")


class NotedRequest(NamedTuple):
    """A request on which a gateway works.

    Attributes:
        record: The name of the record of its session.
        digest: The digest of the request, see :func:`digest_of`.
        operation_id: The operation that the request starts or refers to. Empty if there is none.
    """

    record: RecordName
    digest: str
    operation_id: str


class Work(NamedTuple):
    """What a gateway did at a moment.

    Attributes:
        in_loop: The request of the step in the event loop. None if there was none.
        in_threads: The requests of the calls in threads, without the one in the event loop.
    """

    in_loop: NotedRequest | None
    in_threads: Sequence[NotedRequest]


def digest_of(method: str, content: bytes | memoryview) -> str:
    """Return the digest of a request.

    Only the beginning of a long request counts. Clients give the relations of each plan new numbers, so these do not
    count. If their length changes, or if a client compresses the plan, equal requests have different digests.

    Args:
        method: The name of the method.
        content: The request, or its plan.
    """
    beginning = _PLAN_ID.sub(b"", bytes(content[:_DIGESTED_BYTES]))
    return hashlib.blake2b(method.encode() + b"\n" + beginning, digest_size=_DIGEST_BYTES).hexdigest()


class CurrentWork:
    """The memory in which one gateway after the other notes its work. Create it before the fork.

    It contains a cell for the event loop and for each thread of a pool, with the slot of the current request, and the
    slots of all requests that are being processed.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOTS_START + _SLOTS * _SLOT_BYTES)
        self._cells = memoryview(self._memory)[:_SLOTS_START].cast("Q")
        self._free = deque(range(_SLOTS))
        self._threads = threading.local()
        self._unused_cells = deque(range(_LOOP_CELL + 1, _CELLS))

    async def note(self, request: NotedRequest, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine, and note its steps, and those of the work that it starts, as steps of a request."""
        return await self._follow("\n".join(request).encode(), work)

    def read(self) -> Work:
        """Return the requests that have a step at this moment. Call this after the gateway has ended."""
        in_loop = self._request(self._cells[_LOOP_CELL])
        found = dict.fromkeys(map(self._request, filter(None, self._cells[_LOOP_CELL + 1 :])))
        return Work(in_loop, [each for each in found if each is not None and each != in_loop])

    def clear(self) -> None:
        """Forget all requests, before the next gateway starts."""
        self._memory[:_SLOTS_START] = bytes(_SLOTS_START)

    async def _follow(self, text: bytes, work: Coroutine[Any, Any, _Result]) -> _Result:
        if not self._free or len(text) > _SLOT_BYTES - _HEADER.size:
            return await work
        slot = self._free.popleft()
        note = _Note(self, text, self._write(slot, text))
        _NOTE.set(note)  # for the rest of the task
        try:
            return await self._steps(note.cell, work)
        finally:
            self._free.appendleft(slot)  # so that few pages are in use

    @types.coroutine
    def _steps(self, value: int, work: Coroutine[Any, Any, _Result]) -> Generator[Any, Any, _Result]:
        cells = self._cells
        resume: Callable[[Any], Any] = work.send
        received: Any = None
        while True:
            before = cells[_LOOP_CELL]
            cells[_LOOP_CELL] = value
            try:
                awaited = resume(received)
            except StopIteration as end:
                result: _Result = end.value
                return result
            finally:
                cells[_LOOP_CELL] = before
                received = None  # an error refers to this frame; the two would keep each other in memory
            try:
                received = yield awaited
                resume = work.send
            except BaseException as error:  # noqa: BLE001 - a coroutine receives each error, such as a cancellation
                resume, received = work.throw, error

    def _call(self, value: int, function: Callable[[], _Result]) -> _Result:
        """Call a function in a thread, and note the call."""
        cell = self._cell_of_thread()
        if cell is None:
            return function()
        self._cells[cell] = value
        try:
            return function()
        finally:
            self._cells[cell] = 0

    def _cell_of_thread(self) -> int | None:
        """Return the cell of this thread. None if there are more threads than cells."""
        if not hasattr(self._threads, "cell"):
            self._threads.cell = self._unused_cells.popleft() if self._unused_cells else None
        cell: int | None = self._threads.cell
        return cell

    def _write(self, slot: int, text: bytes) -> int:
        """Write a note to a slot, and return the value of a cell that refers to it."""
        start = _SLOTS_START + slot * _SLOT_BYTES
        generation: int = (_HEADER.unpack_from(self._memory, start)[0] + 1) % (1 << _GENERATION_BITS)
        _HEADER.pack_into(self._memory, start, generation, zlib.crc32(text), len(text))
        text_start = start + _HEADER.size
        self._memory[text_start : text_start + len(text)] = text
        return (generation << _GENERATION_BITS) + slot + 1

    def _request(self, cell: int) -> NotedRequest | None:
        """Return the note to which the value of a cell refers. None if it is not complete, or was replaced."""
        generation, number = divmod(cell, 1 << _GENERATION_BITS)
        if not 0 < number <= _SLOTS:
            return None
        start = _SLOTS_START + (number - 1) * _SLOT_BYTES
        found, checksum, length = _HEADER.unpack_from(self._memory, start)
        text = self._memory[start + _HEADER.size : start + _HEADER.size + length]
        if found != generation or zlib.crc32(text) != checksum:
            return None
        record, digest, operation_id = text.decode().split("\n", 2)  # only an operation id can contain line breaks
        return NotedRequest(RecordName(record), digest, operation_id)


@dataclass(frozen=True, slots=True)
class _Note:
    work: CurrentWork
    text: bytes
    cell: int


_NOTE: ContextVar[_Note | None] = ContextVar("note", default=None)


def noted(work: Coroutine[Any, Any, _Result]) -> Coroutine[Any, Any, _Result]:
    """Return a coroutine for a new task. Its steps are noted as steps of the request that starts the task."""
    note = _NOTE.get()
    return work if note is None else note.work._follow(note.text, work)


def noted_call(function: Callable[[], _Result]) -> Callable[[], _Result]:
    """Return a function for a thread. Its call is noted as a step of the request that makes the call."""
    note = _NOTE.get()
    return function if note is None else lambda: note.work._call(note.cell, function)
