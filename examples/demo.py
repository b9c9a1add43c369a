"""Run the example against the embedded default, and show the workspace.

Leaves nothing behind: the workspace is a temporary directory, and the demo stops every process that it starts.
"""

import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
READY = re.compile(r"Lodge is ready at (sc://\S+)")
WAIT_PROMPT = "-- the session is open --"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="lodge-demo-") as state:
        environment = {
            **os.environ,
            "XDG_STATE_HOME": state,
            "LODGE_LISTEN": "127.0.0.1:0",
            "LODGE_LOG_LEVEL": "warning",
        }
        print("Starting Lodge with a local Spark; this takes some seconds ...", flush=True)
        with subprocess.Popen(
            [sys.executable, "-m", "lodge", "serve"], cwd=HERE, env=environment, stdout=subprocess.PIPE, text=True
        ) as lodge:
            try:
                return run_example(lodge, Path(state) / "lodge" / "dfs.tmp")
            finally:
                lodge.terminate()
                lodge.wait(60)


def run_example(lodge: "subprocess.Popen[str]", workspace: Path) -> int:
    """Run the example as a user would, and return the exit status of the demo."""
    assert lodge.stdout is not None
    line = lodge.stdout.readline()
    ready = READY.search(line)
    if ready is None:
        print("Lodge did not start.", file=sys.stderr)
        return 1
    print(line.strip(), "\n\nRunning examples/amount_by_discount.py ...\n", flush=True)
    with subprocess.Popen(
        [sys.executable, str(HERE / "amount_by_discount.py"), ready.group(1), WAIT_PROMPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for line in client.stdout:
            if WAIT_PROMPT in line:
                break
            print(line, end="", flush=True)
        print("While the session is open, its session location contains:")
        print_locations(workspace)
        client.stdin.write("\n")
        client.stdin.close()
        if client.wait(60) != 0:
            return client.returncode
    left = session_locations(workspace)
    print(f"\nAfter spark.stop(): {'nothing is left.' if not left else f'left behind: {left}'}")
    return 1 if left else 0


def session_locations(workspace: Path) -> list[Path]:
    return [path for path in workspace.iterdir() if path.name != ".lodge"]


def print_locations(workspace: Path) -> None:
    """Print mode and path of all files in session locations."""
    for location in session_locations(workspace):
        for path in [location, *sorted(location.rglob("*"))]:
            print(f"  {stat.filemode(path.stat().st_mode)}  {path.relative_to(workspace)}")


if __name__ == "__main__":
    sys.exit(main())
