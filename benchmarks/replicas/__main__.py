"""All measurements of many sessions and replicas: ``python -m benchmarks.replicas``."""

from benchmarks.replicas.adoption import WAYS, bench_adoption
from benchmarks.replicas.clusters import start_cluster
from benchmarks.replicas.expiry import bench_expiry
from benchmarks.replicas.memory import bench_memory
from lodge.logs import set_up_logs

SESSIONS = 10_000
SESSIONS_IN_MEMORY = 50_000


def main() -> None:
    set_up_logs("error")
    bench_memory(SESSIONS_IN_MEMORY)
    bench_expiry(SESSIONS, None)
    with start_cluster() as cluster:
        bench_expiry(SESSIONS, cluster)
    for way in WAYS:
        with start_cluster() as cluster:
            bench_adoption(cluster, SESSIONS, way)


if __name__ == "__main__":
    main()
