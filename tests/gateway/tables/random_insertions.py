"""Random definitions of tables, and statements that insert into them.

``python -m tests.gateway.tables.random_insertions --statements 10000`` (``make soak``) starts Spark and a gateway, and
compares a temporary table with a table of Spark after each statement. A difference is printed with its seed and with
the statements that are needed for it.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from pyspark.sql.connect.session import SparkSession

from tests.gateway.tables.spark_pair import SparkPair
from tests.running.servers import start_spark_and_lodge

STATEMENTS = 14
_TYPES = {
    "int": ("1", "-7", "2.5", "'x'", "null", "99999999999"),
    "bigint": ("1", "cast(3 as tinyint)", "null", "1.9"),
    "double": ("1", "0.1D", "null", "'nan'"),
    "decimal(5, 2)": ("1", "123.456", "1234567", "null"),
    "string": ("'v'", "7", "null", "''", "date'2020-01-01'"),
    "char(3)": ("'ab'", "'abcd'", "'abc  '", "null"),
    "varchar(3)": ("'ab'", "'abcd'", "'abc  '", "null"),
    "boolean": ("true", "null", "1"),
    "date": ("date'2020-01-01'", "timestamp'2020-01-01 10:00:00'", "'2020-01-01'", "null"),
    "timestamp": ("timestamp'2020-01-01 10:00:00'", "date'2020-01-01'", "null"),
    "array<int>": ("array(1, 2)", "array('x')", "array(1.5)", "null"),
    "struct<x: int, y: varchar(2)>": ("struct(1, 'a')", "struct(1, 'abc')", "named_struct('y', 'a', 'x', 1)", "null"),
}
_DEFAULTS = {"int": "40 + 2", "string": "concat('d', 'e')", "varchar(3)": "'dd'", "date": "date'2021-01-01'"}
_TOO_LONG = {"'abcd'", "struct(1, 'abc')", "99999999999", "1234567", "'x'", "'nan'", "array('x')"}
_PARTITION_TYPES = ("int", "string", "date", "boolean", "decimal(5, 2)")
_POLICIES = ("ANSI", "ANSI", "ANSI", "LEGACY", "STRICT")


def random_columns(chosen: Random) -> dict[str, str]:
    columns = {f"c{number}": chosen.choice(sorted(_TYPES)) for number in range(chosen.randrange(1, 4))}
    return columns | {f"p{number}": chosen.choice(_PARTITION_TYPES) for number in range(chosen.randrange(3))}


def definition(chosen: Random, columns: dict[str, str]) -> str:
    defined = []
    for name, kind in columns.items():
        is_partition = name.startswith("p")
        not_null = " not null" if not is_partition and chosen.random() < 0.1 else ""
        has_default = not is_partition and kind in _DEFAULTS and chosen.random() < 0.6
        default = f" default {_DEFAULTS[kind]}" if has_default else ""
        comment = " comment 'about it'" if chosen.random() < 0.2 else ""
        defined.append(f"{name} {kind}{not_null}{default}{comment}")
    partitions = ", ".join(name for name in columns if name.startswith("p"))
    storage = chosen.choice(("parquet", "parquet", "orc", "json"))
    return f"({', '.join(defined)}) using {storage}" + (f" partitioned by ({partitions})" if partitions else "")


def insertion(chosen: Random, columns: dict[str, str]) -> str:
    values = {name: value(chosen, kind) for name, kind in columns.items()}
    verb = chosen.choice(("insert into", "insert into", "insert overwrite"))
    partitions = [name for name in columns if name.startswith("p")]
    clause = ""
    if partitions and chosen.random() < 0.5:
        constants = partitions[: chosen.randrange(len(partitions) + 1)]
        values |= {p: "'v'" for p in constants if values[p] == "''"}  # the error may hide another one
        clause = f"partition ({', '.join(f'{p} = {values.pop(p)}' if p in constants else p for p in partitions)})"
    queries = ["select {}", "select {}", "values ({})", "select {} from range(2)"]
    if _TOO_LONG.isdisjoint(values.values()):  # Spark may refuse a constant although no row has it
        queries.append("select {} from range(2) where id > 7")
    query = chosen.choice(queries)
    if chosen.random() < 0.1:
        values.pop(chosen.choice(sorted(values)), None)
    match chosen.randrange(4):
        case 0:
            named = [f"{each} as {name}" for name, each in chosen.sample(sorted(values.items()), len(values))]
            return f"{verb} {{t}} {clause} by name select {', '.join(named) or 1}"
        case 1 if values:
            listed = chosen.sample(sorted(values), chosen.randrange(1, len(values) + 1))
            row = ", ".join(values[name] for name in listed)
            return f"{verb} {{t}} {clause} ({', '.join(listed)}) {query.format(row)}"
        case _:
            return f"{verb} {{t}} {clause} {query.format(', '.join(values.values()) or '1')}"


def other_statement(chosen: Random, columns: dict[str, str]) -> str:
    """Return a statement with several ``INSERT`` clauses, or one that concerns partitions.

    Spark finds a partition with NULL only if the values of all partition columns are given, and never truncates it.
    """
    partitions = [name for name in columns if name.startswith("p")]
    if not partitions or chosen.random() < 0.4:
        rows = [", ".join(value(chosen, kind) for kind in columns.values()) for _ in range(2)]
        verbs = [chosen.choice(("insert into", "insert overwrite")) for _ in range(2)]
        return f"from range(2) {verbs[0]} {{t}} select {rows[0]} where id > 0 {verbs[1]} {{t}} select {rows[1]}"
    named = chosen.sample(partitions, chosen.randrange(1, len(partitions) + 1))
    is_overwrite = chosen.random() < 0.3
    values = {
        name: sorted({*_TYPES[columns[name]]} - {*_TOO_LONG, "null", "2.5"})
        for name in columns
        if name in named or is_overwrite
    }
    spec = ", ".join(f"{name} = {chosen.choice(each)}" for name, each in values.items() if name in partitions)
    if is_overwrite:
        data = [value(chosen, kind) for name, kind in columns.items() if name not in partitions]
        return f"insert overwrite {{t}} partition ({spec}) if not exists select {', '.join(data) or '1'}"
    exists = chosen.choice(("", "if exists "))
    return chosen.choice(
        (f"alter table {{t}} drop {exists}partition ({spec})", f"truncate table {{t}} partition ({spec})")
    )


def value(chosen: Random, kind: str) -> str:
    return "default" if chosen.random() < 0.15 else chosen.choice(_TYPES[kind])


@dataclass(frozen=True)
class Case:
    """A definition of a table, and statements.

    Attributes:
        seed: The seed from which the case was created.
        definition: The columns, the format and the partitions.
        steps: The text of each statement, and the overwrite mode and the store assignment policy with which it runs.
    """

    seed: int
    definition: str
    steps: Sequence[tuple[str, str, str]]


def create_case(seed: int) -> Case:
    """Return a random case."""
    chosen = Random(seed)  # noqa: S311 - must be repeatable
    columns = random_columns(chosen)
    defined = definition(chosen, columns)
    steps = []
    for _ in range(STATEMENTS):
        mode, policy = chosen.choice(("static", "dynamic")), chosen.choice(_POLICIES)
        create = insertion if chosen.random() < 0.75 else other_statement
        steps.append((create(chosen, columns), mode, policy))
    return Case(seed, defined, steps)


def compare(client, case: Case) -> None:
    """Check that each statement has the same effect on a temporary table and on a table of Spark.

    Raises:
        AssertionError: If conditions, rows or columns differ.
    """
    pair = SparkPair(client)
    try:
        with pair.tables(case.definition):
            for number, (text, mode, policy) in enumerate(case.steps):
                client.set("spark.sql.sources.partitionOverwriteMode", mode)
                client.set("spark.sql.storeAssignmentPolicy", policy)
                pair.run(text)
                pair.compare((case.seed, number, text))
    finally:
        client.unset("spark.sql.sources.partitionOverwriteMode")
        client.unset("spark.sql.storeAssignmentPolicy")


class Session:
    """A session with the calls that a comparison needs."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.set, self.unset = spark.conf.set, spark.conf.unset

    def rows(self, text):
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def run(self, text):
        self.rows(text)


def find_difference(client, case: Case) -> str | None:
    """Return how the tables differ. None if they do not."""
    try:
        compare(client, case)
    except AssertionError as error:
        return str(error)
    return None


def reduce_case(client, case: Case) -> Case:
    """Return a case with a difference from which no statement can be removed."""
    position = 0
    while position < len(case.steps):
        smaller = replace(case, steps=[*case.steps[:position], *case.steps[position + 1 :]])
        if find_difference(client, smaller) is None:
            position += 1
        else:
            case = smaller
    return case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.tables.random_insertions", description=__doc__)
    parser.add_argument("--statements", type=int, default=10_000, help="the number of statements")
    parser.add_argument("--seed", type=int, help="only the case of this seed")
    arguments = parser.parse_args()
    cases = -(-arguments.statements // STATEMENTS)
    seeds = range(cases) if arguments.seed is None else [arguments.seed]
    failed = 0
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # most statements fail on purpose
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="lodge-insertions-") as directory,
        start_spark_and_lodge(Path(directory)) as (_, lodge),
    ):
        spark = SparkSession.builder.remote(lodge).create()
        client = Session(spark)
        for seed in seeds:
            case = create_case(seed)
            difference = find_difference(client, case)
            if difference is not None:
                failed += 1
                smallest = reduce_case(client, case)
                print(
                    f"Seed {seed}: {difference}\n  create {smallest.definition}",
                    *smallest.steps,
                    sep="\n  ",
                    flush=True,
                )
        spark.stop()
    seconds = time.monotonic() - started
    print(f"{len(seeds) * STATEMENTS:,} statements, {failed} cases with differences, {seconds:.0f} s.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
