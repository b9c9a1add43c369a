"""The process on a node that keeps its iptables rules in step with the NetworkPolicies.

It reads all objects again after each change of one of them. While the API server does not answer, the rules remain.

A node needs its own agent for the same reason as its own kubelet: a lost node enforces nothing, and a node without
network enforces what it knows.
"""

import json
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import ApiException, CoreV1Api, NetworkingV1Api
from urllib3.exceptions import HTTPError

from tests.cluster.machines.policy_rules import CHAIN, Json, Objects, write_rules

USER = "policy-agent"
RULES = (
    {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": ["list", "watch"]},
)
"""The permissions that the process needs."""

# After NAT and before the rules of kube-proxy, which accept some packets at once.
_TABLE, _HOOK = "mangle", "FORWARD"
_WATCH_SECONDS = 60
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.1

_REPOSITORY = Path(__file__).parents[3]

_List = Callable[..., Any]


def write_command(path: Path, kubeconfig: Path, node: str) -> None:
    """Write a program that starts the agent of a node."""
    command = [sys.executable, "-m", "tests.cluster.machines.policy_agent", str(kubeconfig), node]
    path.write_text(f"#!/bin/sh\ncd {shlex.quote(str(_REPOSITORY))} && exec {shlex.join(command)}\n")
    path.chmod(0o755)


def main(kubeconfig: Path, node: str) -> None:
    """Run until the process is killed."""
    client = config.new_client_from_config(str(kubeconfig))
    core, networking = CoreV1Api(client), NetworkingV1Api(client)
    kinds = (
        core.list_pod_for_all_namespaces,
        core.list_namespace,
        networking.list_network_policy_for_all_namespaces,
    )
    changed = threading.Event()
    for kind in kinds:
        threading.Thread(target=_watch, args=(kind, changed), daemon=True).start()
    applied = ""
    while True:
        changed.clear()
        try:
            objects = Objects(*(_read(kind) for kind in kinds))
        except (ApiException, HTTPError, OSError) as error:
            print(f"The API server does not answer: {error}", flush=True)
            time.sleep(_RETRY_SECONDS)
            continue
        rules = "\n".join(write_rules(objects, node))
        if rules != applied:
            _apply(rules)
            applied = rules
        changed.wait()
        time.sleep(_PAUSE_SECONDS)


def _read(kind: _List) -> list[Json]:
    items: list[Json] = json.loads(kind(_preload_content=False).data)["items"]
    return items


def _watch(kind: _List, changed: threading.Event) -> None:
    """Report changes of a kind of objects. The end of each request counts as a change, because one may be missed."""
    while True:
        try:
            answer = kind(watch=True, timeout_seconds=_WATCH_SECONDS, _preload_content=False)
            changed.set()
            for _ in answer.stream(amt=None):
                changed.set()
        except (ApiException, HTTPError, OSError):
            time.sleep(_RETRY_SECONDS)
        changed.set()


def _apply(rules: str) -> None:
    """Replace the rules at once."""
    text = f"*{_TABLE}\n:{CHAIN} - [0:0]\n{rules}\nCOMMIT\n"
    subprocess.run([_find("iptables-restore"), "--wait", "--noflush"], input=text, text=True, check=True)
    jump = [_find("iptables"), "--wait", "--table", _TABLE]
    if subprocess.run([*jump, "--check", _HOOK, "--jump", CHAIN], capture_output=True, check=False).returncode:
        subprocess.run([*jump, "--append", _HOOK, "--jump", CHAIN], check=True)


def _find(program: str) -> str:
    return shutil.which(program) or program


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
