"""Some stops and starts of gateways: a short ``python -m tests.chaos.stops``."""

import os

import pytest

from tests.chaos.stops import GATEWAYS, TIMES, Stops

pytestmark = pytest.mark.slow

CYCLES = int(os.environ.get("LODGE_CHAOS_CYCLES", "2"))
CLIENTS = 3


@pytest.mark.timeout(1200)
def test_clients_lose_nothing_while_gateways_stop_and_start(start_site):
    with Stops(start_site(TIMES, gateways=GATEWAYS, reapers=1), CLIENTS) as stops:
        for _ in range(CYCLES):
            stops.cycle()
        print(stops.finish())
