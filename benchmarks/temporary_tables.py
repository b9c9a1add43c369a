"""Benchmark of temporary tables against the same work done by hand.

"By hand" is what users do without Lodge: ``df.write.parquet`` and a temporary view, directly at the Spark Connect
server. Both run in turn, and the order changes in each round. Each figure is the median of the rounds' ratios.

    python benchmarks/temporary_tables.py [--rounds N] [--rows N] [--tables N] [--sessions N]
"""

import argparse
import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pass_through import connect, percentile, run_gateway, run_in_turn, run_statements
from pyspark.sql.connect.proto import base_pb2
from pyspark.sql.connect.session import SparkSession

from gateway.auditing.audit import Audit
from gateway.blocking_work.current_workspaces import CurrentWorkspaces
from gateway.blocking_work.request_pools import RequestPools
from gateway.blocking_work.storage import make_workspace_reads
from gateway.messages.requests import read_request
from gateway.names.path_checks import PathChecks
from gateway.names.request_resolver import RequestResolver
from gateway.operations.drain import Drain
from gateway.plans.plan_decoding import PlanDecoder
from gateway.scans.plannings import Plannings
from gateway.sql.sql_texts import SqlTexts
from gateway.statements.statement import Statement
from lodge.embedded_spark import embedded_spark
from lodge.logs import set_up_logs
from workspace.workspaces import Workspaces

SOURCE = "select id, id % 1000 k, id * 0.5 v, concat('name ', id % 10000) s from range({rows})"
QUERY = "select k, count(*), sum(v), max(s) from {table} where id % 7 < 5 group by k"


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def compare(name: str, rounds: int, by_hand: Callable[[], None], lodge: Callable[[], None], aim: float) -> None:
    """Print the ratio of the times of two functions.

    The first round is a warm-up and does not count.
    """
    times: dict[str, list[float]] = {"by hand": [], "Lodge": []}
    ways = {"by hand": by_hand, "Lodge": lodge}
    for number in range(rounds + 1):
        run_in_turn(number, ways, lambda way: times[way].append(seconds(ways[way])))
    pairs = list(zip(times["by hand"][1:], times["Lodge"][1:], strict=True))
    ratio = statistics.median(mine / theirs for theirs, mine in pairs)
    print(
        f"{name:44} by hand {statistics.median(a for a, _ in pairs):6.2f} s   Lodge "
        f"{statistics.median(b for _, b in pairs):6.2f} s   ratio {ratio:5.3f}   (aim: at most {aim})",
        flush=True,
    )


def bench_creation_and_query(
    direct: SparkSession, lodge: SparkSession, directory: Path, rounds: int, rows: int
) -> None:
    source = SOURCE.format(rows=rows)

    made = {"by hand": 0, "Lodge": 0}

    def by_hand() -> None:
        made["by hand"] += 1
        path = str(directory / f"by-hand-{made['by hand']}")
        direct.sql(source).write.parquet(path)
        direct.read.parquet(path).createOrReplaceTempView("t")

    def create() -> None:
        made["Lodge"] += 1
        lodge.sql(f"create temporary table t{made['Lodge']} as {source}").collect()

    compare(f"CTTAS of {rows:,} rows", rounds, by_hand, create, 1.05)
    table = f"t{made['Lodge']}"
    query = QUERY.format(table="t")
    compare(
        "a query of these rows",
        rounds * 3,
        lambda: direct.sql(query).toArrow(),
        lambda: lodge.sql(QUERY.format(table=table)).toArrow(),
        1.02,
    )
    compare(
        "the same query by workspace name",
        rounds * 3,
        lambda: direct.sql(query).toArrow(),
        lambda: lodge.sql(QUERY.format(table=f"dfs.tmp.{table}")).toArrow(),
        1.02,
    )


def bench_insertions_and_changes(
    direct: SparkSession, lodge: SparkSession, directory: Path, rounds: int, rows: int
) -> None:
    """Compare insertions with those into a table of Spark, and changes of rows with the same rewriting by hand."""
    source = SOURCE.format(rows=rows)
    direct.sql("drop table if exists inserted").collect()
    columns = "(id bigint, k bigint, v decimal(21, 1), s string)"
    direct.sql(f"create table inserted {columns} using parquet").collect()
    lodge.sql(f"create temporary table inserted {columns}").collect()
    compare(
        f"an insertion of {rows:,} rows",
        rounds,
        lambda: _run(direct, f"insert into inserted {source}"),
        lambda: _run(lodge, f"insert into inserted {source}"),
        1.05,
    )
    direct.sql("drop table inserted").collect()
    lodge.sql("drop table inserted").collect()
    rewritten = {"from": str(directory / "rewritten-0")}
    direct.sql(source).write.parquet(rewritten["from"])
    lodge.sql(f"create temporary table rewritten as {source}").collect()

    def by_hand(query: str) -> None:
        target = str(directory / f"rewritten-{uuid.uuid4()}")
        direct.read.parquet(rewritten["from"]).createOrReplaceTempView("rewritten_by_hand")
        direct.sql(query.format(table="rewritten_by_hand")).write.parquet(target)
        rewritten["from"] = target

    values = "id, k, case when k = 7 then v + 1 else v end v, case when k = 7 then 'new' else s end s"
    compare(
        f"UPDATE of {rows:,} rows",
        rounds,
        lambda: by_hand(f"select {values} from {{table}}"),
        lambda: _run(lodge, "update rewritten set v = v + 1, s = 'new' where k = 7"),
        1.1,
    )
    compare(
        f"DELETE of {rows:,} rows",
        rounds,
        lambda: by_hand("select * from {table} where not coalesce(k = 8 and id % 5000 = 8, false)"),
        lambda: _run(lodge, "delete from rewritten where k = 8 and id % 5000 = 8"),
        1.1,
    )


def _run(session: SparkSession, statement: str) -> None:
    session.sql(statement).collect()


def bench_interception(direct: SparkSession, workspaces: Workspaces) -> None:
    """Print the cost of the checks of an ordinary statement, as a share of a query.

    The query is ``select 1``.
    """
    select_1 = percentile(run_statements([direct], 3.0), 0.5)
    current = CurrentWorkspaces(workspaces, make_workspace_reads())
    pools = RequestPools()
    paths, decoder = PathChecks(current, Audit(), pools), PlanDecoder(pools)
    resolution = RequestResolver(current, paths, pools, Plannings(Drain()), decoder)
    for size, text in ((1_000, "1 kB"), (100_000, "100 kB")):
        sql = "select " + ", ".join(f"a{n} + 1 b{n}" for n in range(size))[:size] + " from t"
        request = base_pb2.ExecutePlanRequest(session_id=str(uuid.uuid4()))
        request.plan.command.sql_command.input.sql.query = sql
        data = request.SerializeToString()

        async def check(data: bytes = data) -> None:
            request = read_request(data, "ExecutePlan")
            encoded = await decoder.read(request)
            if encoded is None:
                raise AssertionError("The request has no plan.")
            plan = await decoder.decode(encoded)
            await paths.check(request.data, [plan.plan], plan.size_bytes, plan.texts)
            if await Statement(request, plan, pools).may_change_tables():
                raise AssertionError("Lodge executes an ordinary statement.")
            if await resolution.find_resolver(request, plan, _fail_on_names) is not None:
                raise AssertionError("Lodge changes an ordinary statement.")

        found = asyncio.run(_measure_seconds(check))
        print(
            f"interception of {text:7} of SQL           {found * 1e6:7.0f} us  select 1 {select_1 * 1e3:5.1f} ms   "
            f"share {found / select_1:6.2%}   (aim: at most 3 %)",
            flush=True,
        )


async def _measure_seconds(check: Callable[[], Any], count: int = 300) -> float:
    found = []
    for _ in range(count):
        begun = time.perf_counter()
        await check()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


async def _fail_on_names(_: SqlTexts) -> Any:
    raise AssertionError("An ordinary statement asked for names.")


def bench_many_tables(direct: SparkSession, lodge: SparkSession, tables: int) -> None:
    times = []
    for number in range(tables):
        times.append(seconds(lambda n=number: lodge.sql(f"create temporary table many_{n} as select {n} a").collect()))  # type: ignore[misc]
    tenth = max(tables // 10, 1)
    first, last = statistics.median(times[:tenth]), statistics.median(times[-tenth:])
    print(
        f"{tables:,} tables in a session: CTTAS {first * 1e3:.0f} ms for the first, {last * 1e3:.0f} ms for the last, "
        f"ratio {last / first:.2f}; SHOW TEMPORARY TABLES "
        f"{seconds(lambda: lodge.sql('show temporary tables').collect()) * 1e3:.0f} ms",
        flush=True,
    )
    plain, through_lodge = (percentile(run_statements([session], 3.0), 0.5) for session in (direct, lodge))
    print(f"select 1 in that session: {through_lodge / plain:.2f} x direct")


def bench_many_sessions(address: str, sessions: int) -> None:
    def work(number: int) -> float:
        session = connect(address)
        begun = time.perf_counter()
        session.sql(f"create temporary table t as select {number} a").collect()
        if session.table("t").collect()[0][0] != number:
            raise AssertionError("a session read the table of another")
        session.sql("drop table t").collect()
        took = time.perf_counter() - begun
        session.stop()
        return took

    begun = time.perf_counter()
    with ThreadPoolExecutor(sessions) as pool:
        times = list(pool.map(work, range(sessions)))
    print(
        f"{sessions} sessions create, read and drop at the same time: no error; "
        f"{time.perf_counter() - begun:.0f} s in total, "
        f"p50 {percentile(times, 0.5):.1f} s, p99 {percentile(times, 0.99):.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each comparison")
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the created tables")
    parser.add_argument("--rows-only", action="store_true", help="only creations, insertions and changes of rows")
    parser.add_argument("--tables", type=int, default=1000, help="tables in one session")
    parser.add_argument("--sessions", type=int, default=200, help="sessions that run at the same time")
    arguments = parser.parse_args()
    set_up_logs("warning")
    with (
        tempfile.TemporaryDirectory() as name,
        embedded_spark("5g") as spark,
        run_gateway(spark.address, Path(name)) as lodge,
    ):
        direct, through = connect(spark.address), connect(lodge.address)
        bench_creation_and_query(direct, through, Path(name), arguments.rounds, arguments.rows)
        bench_insertions_and_changes(direct, through, Path(name), arguments.rounds, arguments.rows)
        if arguments.rows_only:
            return
        root = Path(name) / "tmp"
        bench_interception(direct, Workspaces.from_uris({"dfs.tmp": root.as_uri()}, "dfs.tmp"))
        bench_many_sessions(lodge.address, arguments.sessions)
        bench_many_tables(direct, through, arguments.tables)
        left = [path for path in root.iterdir() if path.name != ".lodge"]
        through.stop()
        print(f"locations while one session is left: {len(left)}")
        direct.stop()


if __name__ == "__main__":
    main()
