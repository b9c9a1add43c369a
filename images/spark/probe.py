#!/opt/lodge/bin/python
"""Run a statement on the Spark Connect server of this pod.

Exits with 0 if the server answers the statement, and with 1 otherwise. The default statement runs on the driver alone,
so it succeeds while all executors are busy. The probe sends the token in SPARK_CONNECT_AUTHENTICATE_TOKEN, which the
server reads as well.

Kubernetes runs the probe often, so it must be cheap: it imports Spark's messages without the rest of PySpark, and it
leaves no session behind.
"""

import argparse
import os
import sys
import uuid
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import grpc

SERVICE = "/spark.connect.SparkConnectService/"
USER = "lodge-spark-probe"


def main() -> int:
    parser = argparse.ArgumentParser(prog="lodge-spark-probe", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--address", default="127.0.0.1:15002", help="the address of the server (default: %(default)s)")
    parser.add_argument("--statement", default="VALUES (1)", help="the statement (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=10, help="the longest time in seconds (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        run_statement(arguments.address, arguments.statement, arguments.timeout)
    except grpc.RpcError as error:
        print(f"Spark at {arguments.address} did not answer: {error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    return 0


def run_statement(address: str, statement: str, seconds: float) -> None:
    """Run a statement in a session of its own, and release the session."""
    messages = import_messages()
    session = {"session_id": str(uuid.uuid4()), "user_context": {"user_id": USER}}
    plan = {"root": {"sql": {"query": statement}}}
    with grpc.insecure_channel(address, [("grpc.enable_http_proxy", 0)]) as channel:
        metadata = []
        if token := os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN"):
            metadata.append(("authorization", f"Bearer {token}"))
        execute = channel.unary_stream(
            f"{SERVICE}ExecutePlan", messages.ExecutePlanRequest.SerializeToString, response_deserializer=None
        )
        release = channel.unary_unary(
            f"{SERVICE}ReleaseSession", messages.ReleaseSessionRequest.SerializeToString, response_deserializer=None
        )
        try:
            for _ in execute(messages.ExecutePlanRequest(**session, plan=plan), metadata=metadata, timeout=seconds):
                pass
        finally:
            release.future(messages.ReleaseSessionRequest(**session), metadata=metadata, timeout=seconds).exception()


def import_messages() -> ModuleType:
    """Import the messages of Spark Connect without running the packages around them."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pyspark")
    root = Path(spec.submodule_search_locations[0])
    for name in ("pyspark", "pyspark.sql", "pyspark.sql.connect", "pyspark.sql.connect.proto"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return import_module("pyspark.sql.connect.proto.base_pb2")


if __name__ == "__main__":
    sys.exit(main())
