"""Insertions of nested values, compared with a table of Spark in the same format."""

from random import Random

import pytest

from tests.gateway.tables.spark_pair import SparkPair

STATEMENTS = 12
_SIMPLE = {"int": "{n}", "string": "'v{n}'", "double": "{n}.5D", "boolean": "{n} > 3"}


def random_type(chosen: Random, depth: int = 3) -> object:
    """Return a type: a name, or the kind and the parts of a nested type."""
    kind = chosen.choice(("simple", "struct", "struct", "array", "map")) if depth else "simple"
    if kind == "struct":
        names = chosen.sample("abcde", chosen.randrange(1, 4))
        return ("struct", [(name, random_type(chosen, depth - 1)) for name in names])
    if kind == "array":
        return ("array", random_type(chosen, depth - 1))
    if kind == "map":
        return ("map", random_type(chosen, depth - 1))
    return chosen.choice(sorted(_SIMPLE))


def ddl(kind: object) -> str:
    match kind:
        case ("struct", members):
            return f"struct<{', '.join(f'{name}: {ddl(each)}' for name, each in members)}>"
        case ("array", element):
            return f"array<{ddl(element)}>"
        case ("map", value):
            return f"map<string, {ddl(value)}>"
        case _:
            return str(kind)


def value(chosen: Random, kind: object) -> str:
    """Return an expression of a type, often with other members, other names or another order of members."""
    if chosen.random() < 0.1:
        return "null"
    match kind:
        case ("struct", members):
            values = [(name, value(chosen, each)) for name, each in members]
            match chosen.randrange(10):
                case 0:
                    values = values[:-1] or values
                case 1:
                    values.append(("z", "1"))
                case 2 | 3:
                    chosen.shuffle(values)
            if chosen.random() < 0.5:
                return f"struct({', '.join(each for _, each in values)})"
            if chosen.random() < 0.3:
                values = [(name.upper(), each) for name, each in values]
            named = [f"'{name}', {each}" for name, each in values]
            return f"named_struct({', '.join(named)})"
        case ("array", element):
            return f"array({value(chosen, element)})"
        case ("map", inner):
            return f"map('k', {value(chosen, inner)})"
        case _:
            return _SIMPLE[str(kind)].format(n=chosen.randrange(9))


def insertion(chosen: Random, columns: dict[str, object]) -> str:
    values = {name: value(chosen, kind) for name, kind in columns.items()}
    match chosen.randrange(4):
        case 0:
            named = [f"{each} as {name}" for name, each in chosen.sample(sorted(values.items()), len(values))]
            return f"insert into {{t}} by name select {', '.join(named)}"
        case 1:
            listed = chosen.sample(sorted(values), chosen.randrange(1, len(values) + 1))
            return f"insert into {{t}} ({', '.join(listed)}) select {', '.join(values[name] for name in listed)}"
        case _:
            return f"insert into {{t}} select {', '.join(values.values())}"


@pytest.mark.parametrize("seed", range(4))
def test_nested_values_are_inserted_as_into_a_table_of_spark(client, seed):
    chosen = Random(seed)  # noqa: S311 - must be repeatable
    columns = {f"c{number}": random_type(chosen) for number in range(1, chosen.randrange(2, 4))}
    schema = ", ".join(["id int", *(f"{name} {ddl(kind)}" for name, kind in columns.items())])
    pair = SparkPair(client)
    with pair.tables(f"({schema}) using parquet"):
        for _ in range(STATEMENTS):
            pair.run(insertion(chosen, {"id": "int", **columns}))
        pair.compare(seed)
