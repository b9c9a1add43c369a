"""The speed of three ways to write rows to batches.

The ways are value by value, in bulk, and as lists that Arrow converts to arrays.

    python benchmarks/row_writer.py [ROWS]

All three routes create the same batches of the same rows from values in memory. A row has an integer, a double, a
string and a small array. The route with lists has no limits, no overflow and a fixed schema, so it shows the cost of
Arrow's conversion alone. The routes run alternately several times, and the fastest run of each counts.
"""

import sys
import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from engine.limits import MAX_ROWS
from engine.result_set.loader import ResultSetLoader
from engine.schema import TupleSchema

SCHEMA = pa.schema([
    pa.field("id", pa.int64()),
    pa.field("price", pa.float64()),
    pa.field("name", pa.string()),
    pa.field("tags", pa.list_(pa.int32()), nullable=False),
])  # fmt: skip
TURNS = 3

Row = tuple[int, float | None, str, list[int]]


def write_rows(rows: list[Row], _: pa.Table) -> Iterator[pa.RecordBatch]:
    loader = ResultSetLoader(schema=TupleSchema.of(SCHEMA))
    row = loader.writer
    identity, price, name, tags = (row.column(index) for index in range(4))
    loader.start_batch()
    for number, cost, text, array in rows:
        if row.is_full:
            yield loader.harvest()
            loader.start_batch()
        row.start_row()
        identity.set_int(number)
        if cost is None:
            price.set_null()
        else:
            price.set_double(cost)
        name.set_string(text)
        element = tags.element
        for tag in array:
            element.set_int(tag)
        row.save_row()
    yield loader.harvest()


def write_lists(rows: list[Row], _: pa.Table) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), MAX_ROWS):
        columns: tuple[list[object], ...] = ([], [], [], [])
        for row in rows[start : start + MAX_ROWS]:
            for column, value in zip(columns, row, strict=True):
                column.append(value)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def append_in_bulk(_: list[Row], table: pa.Table) -> Iterator[pa.RecordBatch]:
    loader = ResultSetLoader(schema=TupleSchema.of(SCHEMA))
    loader.start_batch()
    loader.append(table)
    yield loader.harvest()
    while loader.has_look_ahead:
        loader.start_batch()
        yield loader.harvest()


ROUTES: dict[str, Callable[[list[Row], pa.Table], Iterator[pa.RecordBatch]]] = {
    "rows, value by value": write_rows,
    "lists, then pa.array": write_lists,
    "bulk append": append_in_bulk,
}


def main(arguments: list[str]) -> None:
    count = int(arguments[0]) if arguments else 200_000
    rows: list[Row] = [
        (n, n / 7 if n % 10 else None, f"name of {n}", list(range(n % 4))) for n in range(count)
    ]  # fmt: skip
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    table = pa.table(columns, schema=SCHEMA)
    fastest = dict.fromkeys(ROUTES, float("inf"))
    for _ in range(TURNS):
        for route, load in ROUTES.items():
            start = time.perf_counter()
            batches = list(load(rows, table))
            fastest[route] = min(fastest[route], time.perf_counter() - start)
            assert pa.Table.from_batches(batches).combine_chunks().equals(table), route
    values_per_row = 3 + 1.5
    for route, seconds in fastest.items():
        ratio = fastest["rows, value by value"] / seconds
        print(
            f"{route:22} {count / seconds:14,.0f} rows/s  {seconds / count / values_per_row * 1e9:8,.1f} ns/value"
            f"  {ratio:10,.1f} x value by value"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
