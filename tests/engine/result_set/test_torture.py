"""Deep and ragged documents over many batches, with all features together."""

from typing import Any

import pyarrow as pa

from engine.limits import BatchLimits
from engine.projection.filter import PROJECT_ALL, PROJECT_NONE, ProjectedColumn
from engine.result_set.loader import ResultSetLoader
from engine.result_set.sizes import batch_sizes
from engine.schema import TupleSchema

ROWS = 3_000
LIMITS = BatchLimits(rows=500, vector_bytes=4_000, batch_bytes=30_000)

SCHEMA = TupleSchema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("dropped", pa.string()),
        pa.field("outer", pa.struct([
            pa.field("text", pa.string()),
            pa.field("inner", pa.struct([
                pa.field("deep", pa.list_(pa.struct([
                    pa.field("tags", pa.list_(pa.string()), nullable=False),
                    pa.field("more", pa.map_(pa.string(), pa.list_(pa.int32()))),
                    pa.field("kind", pa.string(), nullable=False, metadata={b"lodge.default": b"plain"}),
                ]))),
            ])),
        ])),
        pa.field("names", pa.list_(pa.string()), nullable=False),
    ]
)  # fmt: skip


class _AllButDropped:
    is_empty = False

    def project(self, field: pa.Field) -> ProjectedColumn:
        return ProjectedColumn(None, PROJECT_NONE) if field.name == "dropped" else ProjectedColumn(field, PROJECT_ALL)


def test_deep_ragged_rows_survive_overflow_and_rejected_rows(write: Any) -> None:
    loader = ResultSetLoader(schema=SCHEMA, projection=_AllButDropped(), limits=LIMITS)
    outer = loader.writer.column("outer")
    shown: list[dict[str, Any]] = []
    batches = 0
    loader.start_batch()
    for number in range(ROWS):
        while loader.is_full:
            shown += _harvest_checked(loader)
            batches += 1
            loader.start_batch()
        if number % 7 == 3:
            _write(loader, write, ROWS + number)
        if number == ROWS // 2:
            outer.add_column(pa.field("late", pa.bool_()))
        _write(loader, write, number)
        loader.writer.save_row()
    shown += _harvest_checked(loader)
    while loader.has_look_ahead:
        loader.start_batch()
        shown += _harvest_checked(loader)
    assert batches > 20
    assert len(shown) == loader.total_rows == ROWS
    for number, row in enumerate(shown):
        if row["outer"] is not None:
            row["outer"].pop("late", None)
        assert row == _expected(number)


def _write(loader: ResultSetLoader, write: Any, number: int) -> None:
    loader.writer.start_row()
    row: dict[str, Any] = {"id": number, "dropped": "x" * 5_000}
    if number % 5:
        row["outer"] = {"text": _text(number), "inner": {"deep": _deep(number, ...)} if number % 3 else ...}
    if number % 4:
        row["names"] = [_text(number + n) for n in range(number % 6)]
    write.row(loader, row)


def _expected(number: int) -> dict[str, Any]:
    inner = {"deep": _deep(number, "plain")} if number % 3 else None
    return {
        "id": number,
        "outer": {"text": _text(number), "inner": inner} if number % 5 else None,
        "names": [_text(number + n) for n in range(number % 6)] if number % 4 else [],
    }


def _text(number: int) -> str | None:
    return f"{number}-" * (number % 9) if number % 11 else None


def _deep(number: int, kind: Any) -> list[dict[str, Any] | None]:
    return [
        {
            "tags": [_text(number * n) for n in range(n % 3)],
            "more": [(f"k{key}", list(range(key))) for key in range(n)] if number % 2 else None,
            "kind": kind if n % 2 else "special",
        }
        if (number + n) % 8
        else None
        for n in range(number % 5)
    ]


def _harvest_checked(loader: ResultSetLoader) -> list[dict[str, Any]]:
    batch = loader.harvest()
    batch.validate(full=True)
    assert batch.num_rows <= LIMITS.rows
    assert batch_sizes(batch, 0, batch.num_rows).excess(LIMITS) is None
    return list(batch.to_pylist())
