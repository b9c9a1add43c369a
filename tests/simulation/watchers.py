"""The watchers of gateways: they end a gateway that does not respond, and replace one that ended."""

from collections.abc import Callable, Sequence

from tests.simulation.gateways import GatewayProcess
from tests.simulation.schedule import Schedule
from workspace.identifiers import ReplicaId

_PERIOD_SECONDS = 1.0
_STALL_SECONDS = 4.0


class Watchers:
    """The watchers of all gateways.

    Args:
        schedule: Gives the time and the random choices.
        gateways: Returns the running gateways.
        start: Starts a gateway that replaces the given replica.
    """

    def __init__(
        self,
        schedule: Schedule,
        gateways: Callable[[], Sequence[GatewayProcess]],
        start: Callable[[ReplicaId | None], None],
    ) -> None:
        self._schedule = schedule
        self._gateways = gateways
        self._start = start
        self._silent_since: dict[GatewayProcess, float] = {}

    def watch(self) -> None:
        """End gateways that do not respond, from now on."""
        now = self._schedule.now
        self._silent_since = {gateway: self._silent_since.get(gateway, now) for gateway in self._silent()}
        for gateway, since_seconds in list(self._silent_since.items()):
            if now - since_seconds >= _STALL_SECONDS:
                self._silent_since[gateway] = float("inf")
                self.on_silence(gateway)
        self._schedule.after(_PERIOD_SECONDS, self.watch)

    def on_silence(self, gateway: GatewayProcess) -> None:
        """End a gateway that does not respond. The world calls `replace` then."""
        gateway.process.die()

    def replace(self, gateway: GatewayProcess) -> None:
        """Start the replacement of a gateway that ended."""
        self._schedule.after(self._schedule.random.random(), lambda: self._start(gateway.latest_ready))

    def _silent(self) -> Sequence[GatewayProcess]:
        now = self._schedule.now
        return [
            gateway
            for gateway in self._gateways()
            if max(gateway.process.paused_until, gateway.process.loop_stalled_until) > now
        ]
