"""Several gateway replicas in one process: ``python -m benchmarks.replicas.replica_group NUMBER OPTION...``.

The options are those of ``lodge serve``. Each replica is a complete gateway with storage, a lease and a watch of its
own. Only the process is shared, because a process for each replica would need too much memory for one machine.

The program prints a line when all replicas serve. For each line that it reads, it prints a line of JSON with the state
of each replica: the number of its sessions and of its requests for session records.
"""

import argparse
import asyncio
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gateway.server import Gateway
from lodge.logs import set_up_logs
from lodge.serve import config_for
from lodge.settings import ServeSettings, SettingsOptions
from lodge.stores import open_stores
from lodge.workspace_settings import workspaces_from

_WATCH = "watch"


class _Replica:
    """A gateway that counts its requests for session records."""

    def __init__(self, settings: ServeSettings) -> None:
        workspaces = workspaces_from(settings)
        stores = open_stores(settings, workspaces)
        self._requests: Counter[str] = Counter()
        self._counting = threading.Lock()
        if stores.kubernetes is not None:
            self._count_requests(stores.kubernetes.api_client)
        config = config_for(settings, workspaces, None)
        self.gateway = Gateway(config, stores.records, stores.leases, stores.locations)

    def state(self) -> dict[str, int]:
        state = self.gateway.state()
        with self._counting:
            requests = sum(count for verb, count in self._requests.items() if verb != _WATCH)
        return {"sessions": 0 if state is None else state.sessions, "requests": requests}

    def _count_requests(self, client: Any) -> None:
        call = client.call_api

        def count(method: str, url: str, *arguments: Any, **more: Any) -> Any:
            if re.search(r"/connectsessions\b", url):
                with self._counting:
                    self._requests[_WATCH if "watch=" in url else method] += 1
            return call(method, url, *arguments, **more)

        client.call_api = count


async def run(number: int, options: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    settings = SettingsOptions(ServeSettings, parser)
    read = settings.read(parser.parse_args(options))
    replicas = [await asyncio.to_thread(_Replica, read) for _ in range(number)]
    for replica in replicas:
        await replica.gateway.start()
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps([replica.state() for replica in replicas]), flush=True)


if __name__ == "__main__":
    set_up_logs("error")
    asyncio.run(run(int(sys.argv[1]), sys.argv[2:]))
