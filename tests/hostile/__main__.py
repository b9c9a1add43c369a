"""Attack a gateway while clients work (``make soak``)."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.conftest import end, start_spark_process
from tests.hostile.attacks import ATTACKS
from tests.hostile.programme import Gateway, Plan, play

_WARM_UP_SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long the attackers attack; default: 5")
    parser.add_argument("--quiet-minutes", type=float, default=1.0, help="how long no attacker attacks; default: 1")
    parser.add_argument("--attack", action="append", choices=list(ATTACKS), help="only this attack; may be repeated")
    parser.add_argument("--one-by-one", action="store_true", help="one attack after the other")
    arguments = parser.parse_args()
    plan = Plan(
        arguments.quiet_minutes * 60,
        arguments.minutes * 60,
        _WARM_UP_SECONDS,
        attacks=tuple(arguments.attack or ATTACKS),
        one_by_one=arguments.one_by_one,
    )
    directory = Path(tempfile.mkdtemp(prefix="lodge-hostile-"))
    spark_directory = directory / "spark"
    spark_directory.mkdir()
    spark = start_spark_process(spark_directory)
    try:
        with Gateway(spark.address, directory) as gateway:
            result = play(gateway, plan)
    finally:
        end(spark.process)
    print(result.summary())
    problems = result.problems()
    if problems:
        print("FAILED", *problems, f"Log: {gateway.log}", sep="\n")
        return 1
    shutil.rmtree(directory)
    print("All claims hold.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
