"""Processes in place of simulated pods, with the chart's settings for pods."""

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
    """The only container of a pod, as a process of this machine.

    Args:
        pod: The pod with the arguments and environment variables.
        account: The service account of the pod.
        config: The file that the pod mounts from its ConfigMap.
        log: The log file.
        more: Further environment variables, because the process has no pod network.
        is_ready: Returns whether a log is that of a ready process.
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
        """End the process as a kubelet does, and return its exit status."""
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
        if entry.value_from is None:
            found[entry.name] = entry.value
            continue
        value = pod
        for part in entry.value_from.field_ref.field_path.split("."):
            value = getattr(value, "node_name" if part == "nodeName" else part)
        found[entry.name] = str(value)
    return found
