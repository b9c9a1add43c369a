"""Processes in place of pods, which the test cluster only simulates. They get what the chart gives the pods."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from kubernetes.client import V1Pod

from tests.cluster.accounts import ServiceAccount
from tests.cluster.processes import Process, wait_until

STOP_SECONDS = 60.0


class PodProcess(Process):
    """The one container of a pod, as a process of this machine.

    Args:
        pod: It gives arguments and variables.
        account: The pod's, which is how the process reaches the API server.
        config: The file that the pod has of its ConfigMap.
        log: Where to write to.
        more: Variables that a process without a pod's network needs.
        is_ready: Tells from the log whether it has started.
    """

    def __init__(
        self,
        pod: V1Pod,
        account: ServiceAccount,
        config: Path,
        *,
        log: Path,
        more: Mapping[str, str],
        is_ready: Callable[[str], bool],
    ) -> None:
        (container,) = pod.spec.containers
        command, option, path = container.args
        assert (option, path) == ("--config", "/etc/lodge/lodge.yaml")
        super().__init__(
            [sys.executable, "-m", "lodge", command, option, config],
            log,
            is_ready=lambda: is_ready(log.read_text()),
            environment={**_variables(pod), "KUBECONFIG": str(account.kubeconfig), **more},
        )

    def stop(self) -> int:
        """Ends it as the kubelet does. Returns: Its exit status."""
        child = self._running()
        os.kill(child.pid, signal.SIGTERM)
        wait_until(lambda: _has_ended(child), f"{self.name} ends after SIGTERM", STOP_SECONDS)
        self.kill()
        return child.returncode


def _has_ended(child: "subprocess.Popen[bytes]") -> bool:
    return child.poll() is not None


def _variables(pod: V1Pod) -> Mapping[str, str]:
    (container,) = pod.spec.containers
    found = {}
    for entry in container.env:
        value = pod
        for part in entry.value_from.field_ref.field_path.split("."):
            value = getattr(value, "node_name" if part == "nodeName" else part)
        found[entry.name] = str(value)
    return found
