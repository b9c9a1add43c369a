"""Plans of scans of a directory with many small files in an S3 bucket, on a local server.

    python -m benchmarks.lake.bucket [--files N ...]

A plan is what the gateway does before Spark runs a query: it lists the files, and finds their schemas. The first plan
examines each file on the executors. The second one only lists the files, and is compared with a plain listing of the
same directory by pyarrow in the same run. The requests are counted for a small directory, by a proxy that is slower
than the server.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyarrow import fs

from benchmarks.pass_through import Gateway, connect, run_gateway, seconds_of
from lodge.embedded_spark import embedded_spark
from lodge.logs import set_up_logs
from tests.cluster.s3 import REGION, S3Server
from tests.cluster.s3_proxy import S3Proxy

CONTENT = b'{"id": 1, "name": "bolt", "price": 2.5}\n' * 10
MOST_FILES = 1_000_000
WRITERS = 8
SECOND_PLANS = 3
OLD_SECONDS = 3.0
"""Files are remembered only if they are older than two seconds when they are listed."""

COUNTED_FILES = 1000
HEADER = "| files | plain listing | first plan | second plan | second / listing | gateway |"


def write_files(storage: fs.S3FileSystem, folder: str, count: int) -> None:
    def write(number: int) -> None:
        with storage.open_output_stream(f"{folder}/{number:07}.json") as stream:
            stream.write(CONTENT)

    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(write, range(count)):
            pass


def count_requests(storage: fs.S3FileSystem, bucket: str, proxy: S3Proxy, gateway: Gateway) -> None:
    """Print the number of requests of a first query. It also lets Spark start its Python workers."""
    write_files(storage, f"{bucket}/raw/counted", COUNTED_FILES)
    time.sleep(OLD_SECONDS)
    session = connect(gateway.address)
    text = "select * from counted.`counted`"
    steps: dict[str, Callable[[], object]] = {
        "first plan": lambda: session.sql(text).schema,
        "second query": lambda: session.sql(text).toArrow(),
    }
    for name, work in steps.items():
        proxy.operations = Counter()
        work()
        requests = ", ".join(f"{count:,} {operation}" for operation, count in sorted(proxy.operations.items()))
        print(f"requests of the {name} of {COUNTED_FILES:,} files: {requests}", flush=True)
    session.stop()


def measure(count: int, storage: fs.S3FileSystem, bucket: str, gateway: Gateway) -> None:
    """Write files, and print a row of the table."""
    folder = f"files_{count}"
    write_files(storage, f"{bucket}/raw/{folder}", count)
    time.sleep(OLD_SECONDS)
    selector = fs.FileSelector(f"{bucket}/raw/{folder}", recursive=True)
    listing = seconds_of(lambda: storage.get_file_info(selector))
    session = connect(gateway.address)

    def plan() -> None:
        assert session.sql(f"select * from lake.`{folder}`").schema.names == ["id", "name", "price"]

    first = seconds_of(plan)
    second = statistics.median(seconds_of(plan) for _ in range(SECOND_PLANS))
    session.stop()
    cells = [f"{count:,}", f"{listing:.2f} s", f"{first:.1f} s", f"{second:.2f} s", f"{second / listing:.2f}"]
    print("|", " | ".join([*cells, f"{gateway.resident_bytes() / 2**20:.0f} MiB"]), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake.bucket", description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="*", default=[1000, 10_000], help="the numbers of files")
    arguments = parser.parse_args()
    if not all(1 <= count <= MOST_FILES for count in arguments.files):
        parser.error(f"--files must be between 1 and {MOST_FILES:,}.")
    set_up_logs("error")
    with tempfile.TemporaryDirectory(prefix="lodge-bench-") as temporary, S3Server() as server:
        os.environ |= {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        bucket = server.bucket()
        with S3Proxy(server.endpoint) as proxy, embedded_spark("4g") as spark:
            options = []
            for name, endpoint in (("lake", server.endpoint), ("counted", proxy.endpoint)):
                address = f"endpoint_override={endpoint}&scheme=http&region={REGION}"
                options += ["--workspace", f"{name}=s3://{bucket}/raw?{address}"]
            with run_gateway(spark.address, Path(temporary), *options) as gateway:
                count_requests(server.filesystem(), bucket, proxy, gateway)
                print(HEADER, "|---" * HEADER.count(" |") + "|", sep="\n", flush=True)
                for count in arguments.files:
                    measure(count, server.filesystem(), bucket, gateway)


if __name__ == "__main__":
    main()
