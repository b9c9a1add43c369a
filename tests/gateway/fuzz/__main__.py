"""Compares decoders with random requests for a given time: ``python -m tests.gateway.fuzz [SECONDS]``."""

import sys
import time
from collections import Counter
from random import Random

from tests.gateway.fuzz.checker import SparkReader, check_requests

_BATCH = 2000


def main(seconds: float) -> None:
    seed = time.time_ns()
    print(f"seed {seed}", flush=True)
    random, outcomes = Random(seed), Counter[str]()  # noqa: S311 - not for cryptography
    end = time.monotonic() + seconds
    with SparkReader() as spark:
        while time.monotonic() < end:
            outcomes += check_requests(spark, random, _BATCH)
    print(f"{outcomes.total():,} requests without a disagreement: {dict(outcomes)}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
