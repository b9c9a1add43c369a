"""What ``lodge serve`` sets for its whole process."""

import os
import subprocess
import sys

START = """
import os
from lodge.tuning import settle_memory, start_grpc
start_grpc()
settle_memory()
import asyncio
from grpc import aio
async def serve():
    server = aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await server.stop(None)
asyncio.run(serve())
print(os.environ.get("GRPC_EXPERIMENTS"))
"""


def started(**variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    return subprocess.run(
        [sys.executable, "-c", START],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_the_installed_grpc_knows_the_poller_that_is_chosen_and_children_do_not_inherit_it():
    done = started()
    assert done.stdout == "None\n"
    assert done.stderr == ""


def test_an_operators_own_choice_wins():
    done = started(GRPC_EXPERIMENTS="no_such_experiment")
    assert done.stdout == "no_such_experiment\n"
    assert "Unknown experiment: no_such_experiment" in done.stderr
