"""How far a reader must walk to follow a statement through the gateway.

A profiler notes the asynchronous functions of the gateway that one call enters, each when it is entered first. This is
the order in which a reader meets them. Functions without ``await`` are left out, because they decide or convert
something for their caller, and a reader can trust their names. A stay is a sequence of functions in one module. A
return is a stay in a module in which the reader has been before. The limits leave room for a few steps that a call
takes only if it has to wait.
"""

import json
from collections.abc import Callable, Sequence

import pytest
from pyspark.sql import SparkSession

from tests.conftest import LodgeProcess

pytestmark = pytest.mark.slow

PROFILER = """
import inspect
import json
import sys
from contextvars import ContextVar

from gateway.calls.door import Door
from lodge.cli import main

notes = open("paths.jsonl", "a", buffering=1)
met = ContextVar("met", default=None)
answer = Door._answer


def note(frame, event, _):
    module = frame.f_globals.get("__name__", "")
    is_flow = frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    if event == "call" and is_flow and module.startswith("gateway.") and met.get() is not None:
        met.get().setdefault(f"{module}:{frame.f_code.co_qualname}")


async def note_answer(door, name, handler, context):
    if name != "ExecutePlan":
        return await answer(door, name, handler, context)
    entered = ("Door.handler.<locals>.handle", "Door._answer")
    met.set(dict.fromkeys(f"{Door.__module__}:{each}" for each in entered))  # only for this call and its tasks
    sys.setprofile(note)
    try:
        return await answer(door, name, handler, context)
    finally:
        sys.setprofile(None)
        print(json.dumps(list(met.get())), file=notes)


Door._answer = note_answer
sys.exit(main())
"""


@pytest.fixture(scope="module")
def gateway(start_lodge: Callable[..., LodgeProcess], spark_server: str) -> LodgeProcess:
    return start_lodge(backend=spark_server, program=["-c", PROFILER])


@pytest.mark.parametrize(
    ("sql", "most_stays", "most_returns"),
    [("select 1", 29, 11), ("create temporary table t as select 1 as a", 82, 44)],
)
def test_path_of_a_statement_is_short(
    gateway: LodgeProcess,
    connect: Callable[[LodgeProcess], SparkSession],
    sql: str,
    most_stays: int,
    most_returns: int,
) -> None:
    spark = connect(gateway)
    spark.sql("select 0").collect()
    notes = gateway.log_file.parent / "paths.jsonl"
    known = len(notes.read_text().splitlines())
    spark.sql(sql).collect()
    path = json.loads(notes.read_text().splitlines()[known])  # the statement, before the relation that is its answer
    stays = _stays(path)
    assert len(stays) <= most_stays, "\n".join(path)
    assert len(stays) - len(set(stays)) <= most_returns, "\n".join(path)


def _stays(path: Sequence[str]) -> Sequence[str]:
    modules = [each.partition(":")[0] for each in path]
    return [module for before, module in zip(["", *modules], modules, strict=False) if module != before]
