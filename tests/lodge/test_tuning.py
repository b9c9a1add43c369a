"""The process-wide settings of ``lodge serve``."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.identity.certificates import CertificateAuthority

VARIABLES = ("GRPC_EXPERIMENTS", "GRPC_ENABLE_FORK_SUPPORT", "GRPC_VERBOSITY")
START = """
import os
from lodge.tuning import freeze_loaded_objects, start_grpc
start_grpc()
freeze_loaded_objects()
import asyncio
from grpc import aio
from lodge.children import start_child
async def serve():
    server = aio.server()
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    for _ in range(3):
        child = start_child(["/bin/true"], environment=dict(os.environ))
        assert child.wait() == 0
    await server.stop(None)
asyncio.run(serve())
print(os.environ.get("GRPC_EXPERIMENTS"), os.environ.get("GRPC_ENABLE_FORK_SUPPORT"))
"""

START_WITHOUT_PANDAS = """
import sys
from lodge.tuning import leave_out_pandas
leave_out_pandas()
import lodge.serve
import pyarrow
print(pyarrow.array([1]).to_pylist(), "pandas" in sys.modules)
"""


def run_server(**variables: str) -> "subprocess.CompletedProcess[str]":
    """Serve gRPC and start child processes, as ``lodge serve`` does."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.run(
        [sys.executable, "-c", START],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_grpc_accepts_our_settings_which_children_do_not_inherit() -> None:
    done = run_server()
    assert done.stderr == "", "gRPC logs nothing when a child starts"
    assert done.stdout == "None None\n"


def test_the_operators_own_setting_wins() -> None:
    done = run_server(GRPC_EXPERIMENTS="no_such_experiment")
    assert done.stdout == "no_such_experiment None\n"
    assert "Unknown experiment: no_such_experiment" in done.stderr


def test_gateway_starts_without_pandas(tmp_path: Path) -> None:
    program = tmp_path / "start.py"
    program.write_text(START_WITHOUT_PANDAS)
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[1] False\n"


def test_gateway_starts_from_a_program_without_a_file() -> None:
    command = [sys.executable, "-c", START_WITHOUT_PANDAS]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[1] True\n"


def test_failed_handshakes_write_nothing_to_the_log(start_lodge, tmp_path):
    """A reader of stderr that stalls would otherwise stop the threads of gRPC."""
    files = CertificateAuthority(tmp_path).server()
    tls = json.dumps({"certificate": str(files.certificate), "key": str(files.key)})
    gateway = start_lodge("--tls", tls, backend="sc://127.0.0.1:1", program=["-m", "lodge"])
    before = gateway.log()
    host, _, port = gateway.target.rpartition(":")
    for hello in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 100):
        with socket.create_connection((host, int(port)), timeout=30) as stranger:
            stranger.sendall(hello)
            while stranger.recv(1024):
                pass
    assert gateway.log() == before


def test_event_loop_does_not_wait_long_for_a_thread_that_computes(start_lodge, tmp_path):
    """The program of the gateway writes the interval when it begins to serve."""
    found = tmp_path / "interval"
    program = f"""
import pathlib, sys
from lodge import serve
from lodge.cli import main
def noted(*arguments, _serve=serve.serve):
    pathlib.Path({str(found)!r}).write_text(str(sys.getswitchinterval()))
    return _serve(*arguments)
serve.serve = noted
sys.exit(main())
"""
    start_lodge(program=["-c", program], backend="sc://127.0.0.1:1")
    assert float(found.read_text()) <= 0.001
