"""A cluster with real nodes runs containers, and loses nodes for real."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from urllib.error import URLError

import pytest
from kubernetes.client import AppsV1Api, CoreV1Api, NetworkingV1Api, V1Pod
from kubernetes.stream import stream

from tests.cluster.cluster import Cluster
from tests.cluster.machines.small_images import BUSYBOX_IMAGE, write_busybox_image
from tests.cluster.nodes import is_ready
from tests.cluster.processes import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("machine_programs")]

SECONDS = 90.0
PORT = 30080
SERVE = "mkdir /tmp/www && hostname >/tmp/www/index.html && echo serving && exec httpd -f -p 8080 -h /tmp/www"
STARTS_A_CLUSTER = """
import signal
from tests.cluster.cluster import Cluster
with Cluster(machines=1) as cluster:
    print(cluster.machines[0].address, cluster.directory, flush=True)
    signal.pause()
"""


@pytest.fixture(scope="module")
def real_cluster(machine_programs: None) -> Iterator[Cluster]:
    """A cluster that leaves nothing when it is closed."""
    with Cluster(machines=2) as cluster:
        image = write_busybox_image(cluster.directory / "busybox.tar")
        for machine in cluster.machines:
            machine.load_image(image)
        network = network_of(cluster.machines[0].address)
        assert_occupies_host(network, cluster.directory)
        yield cluster
    wait_until(lambda: not traces(network, cluster.directory), "nothing is left", SECONDS)


@pytest.fixture(scope="module")
def web(real_cluster: Cluster) -> str:
    """Return the namespace of a web server with a pod on each node and a Service."""
    namespace = real_cluster.namespace()
    labels = {"app": "web"}
    server = {
        "name": "web",
        "image": BUSYBOX_IMAGE,
        "args": ["-c", SERVE],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "shared", "mountPath": "/shared"}],
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    lost = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    pod = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [lost | {"tolerationSeconds": 1}],
        "topologySpreadConstraints": [spread],
        "containers": [server],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}},
        ],
    }
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    deployment = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    service = {
        "type": "NodePort",
        "selector": labels,
        "ports": [{"port": 80, "targetPort": 8080, "nodePort": PORT}],
    }
    core = CoreV1Api(real_cluster.client)
    core.create_namespaced_persistent_volume_claim(namespace, {"metadata": {"name": "shared"}, "spec": claim})
    core.create_namespaced_service(namespace, {"metadata": {"name": "web"}, "spec": service})
    apps = AppsV1Api(real_cluster.client)
    apps.create_namespaced_deployment(namespace, {"metadata": {"name": "web"}, "spec": deployment})
    wait_until(lambda: len(ready_pods(core, namespace)) == 2, "both pods are ready", SECONDS)
    return namespace


def ready_pods(core: CoreV1Api, namespace: str) -> list[V1Pod]:
    return [
        pod
        for pod in core.list_namespaced_pod(namespace).items
        if pod.metadata.deletion_timestamp is None
        and any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ())
    ]


def start_client(core: CoreV1Api, namespace: str, node: str) -> V1Pod:
    """Start a pod without labels on a node."""
    container = {"name": "client", "image": BUSYBOX_IMAGE, "args": ["-c", "sleep 1000"]}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    core.create_namespaced_pod(namespace, {"metadata": {"name": "client"}, "spec": spec})
    ready: list[V1Pod] = []
    wait_until(
        lambda: ready.extend(pod for pod in ready_pods(core, namespace) if pod.metadata.name == "client") or ready,
        "the client is ready",
        SECONDS,
    )
    return ready[0]


def run(core: CoreV1Api, pod: V1Pod, command: str) -> str:
    """Run a command in the container of a pod."""
    return stream(
        core.connect_get_namespaced_pod_exec,
        pod.metadata.name,
        pod.metadata.namespace,
        command=["/bin/sh", "-c", command],
        stdout=True,
        stderr=True,
    )


def fetch(address: str) -> str:
    """Return the answer of the web server. It is empty while the node has no rules for the Service."""
    try:
        with urllib.request.urlopen(f"http://{address}:{PORT}/", timeout=5) as response:
            return response.read().decode().strip()
    except URLError:
        return ""


def test_pods_run_on_both_nodes_and_clients_outside_reach_them(real_cluster: Cluster, web: str) -> None:
    pods = ready_pods(CoreV1Api(real_cluster.client), web)
    assert {pod.spec.node_name for pod in pods} == {machine.name for machine in real_cluster.machines}
    for machine in real_cluster.machines:
        missing = {pod.metadata.name for pod in pods}
        wait_until(
            lambda address=machine.address, missing=missing: missing.discard(fetch(address)) or not missing,
            f"both pods answer through {machine.name}",
            SECONDS,
        )


def test_pods_reach_services_by_name_and_share_a_volume(real_cluster: Cluster, web: str) -> None:
    core = CoreV1Api(real_cluster.client)
    first, second = ready_pods(core, web)
    names = {pod.metadata.name for pod in (first, second)}
    assert run(core, first, f"wget -qO- http://web.{web}.svc.cluster.local").strip() in names
    assert run(core, second, "wget -qO- http://web").strip() in names
    run(core, first, "echo written >/shared/file")
    assert run(core, second, "cat /shared/file").strip() == "written"
    assert core.read_namespaced_pod_log(first.metadata.name, web).strip() == "serving"


def test_nodes_enforce_network_policies(real_cluster: Cluster, web: str) -> None:
    """The client runs on the node of one of the two web servers."""
    core, networking = CoreV1Api(real_cluster.client), NetworkingV1Api(real_cluster.client)
    servers = ready_pods(core, web)
    client = start_client(core, web, servers[0].spec.node_name)

    def open_servers() -> list[bool]:
        answers = [run(core, client, f"busybox timeout 1 wget -qO- http://{pod.status.pod_ip}:8080") for pod in servers]
        return [answer.strip() == pod.metadata.name for answer, pod in zip(answers, servers, strict=True)]

    assert all(open_servers())
    allowed = {"from": [{"podSelector": {"matchLabels": {"access": "web"}}}], "ports": [{"port": 8080}]}
    spec = {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": [allowed]}
    networking.create_namespaced_network_policy(web, {"metadata": {"name": "web"}, "spec": spec})
    wait_until(lambda: not any(open_servers()), "both pods are closed", SECONDS)
    core.patch_namespaced_pod("client", web, {"metadata": {"labels": {"access": "web"}}})
    wait_until(lambda: all(open_servers()), "both pods are open to pods with the label", SECONDS)
    assert len(ready_pods(core, web)) == 3  # the probes of the kubelet are never blocked
    networking.delete_namespaced_network_policy("web", web)
    core.delete_namespaced_pod("client", web, grace_period_seconds=0)


def test_pods_of_a_lost_node_run_elsewhere_until_it_returns(real_cluster: Cluster, web: str) -> None:
    core = CoreV1Api(real_cluster.client)
    lost, other = real_cluster.machines
    lost.kill()
    wait_until(lambda: not is_ready(core.read_node_status(lost.name)), f"{lost.name} is not ready", SECONDS)
    wait_until(
        lambda: [pod.spec.node_name for pod in ready_pods(core, web)] == [other.name] * 2,
        "both pods run on the other node",
        SECONDS,
    )
    wait_until(lambda: fetch(other.address), "the Service answers", SECONDS)
    lost.start()
    wait_until(lambda: is_ready(core.read_node_status(lost.name)), f"{lost.name} is ready", SECONDS)
    wait_until(lambda: len(core.list_namespaced_pod(web).items) == 2, "the pods of the lost node are removed", SECONDS)


def test_node_without_network_is_lost_until_the_network_returns(real_cluster: Cluster) -> None:
    core = CoreV1Api(real_cluster.client)
    machine = real_cluster.machines[1]
    machine.cut_network()
    wait_until(lambda: not is_ready(core.read_node_status(machine.name)), f"{machine.name} is not ready", SECONDS)
    machine.restore_network()
    wait_until(lambda: is_ready(core.read_node_status(machine.name)), f"{machine.name} is ready", SECONDS)


def test_program_of_a_node_that_ends_is_started_again(real_cluster: Cluster) -> None:
    core = CoreV1Api(real_cluster.client)
    machine = real_cluster.machines[0]

    def last_heartbeat() -> datetime:
        conditions = core.read_node_status(machine.name).status.conditions
        return next(each.last_heartbeat_time for each in conditions if each.type == "Ready")

    machine.run("pkill", "-KILL", "-x", "containerd|kubelet-program")
    before = last_heartbeat() + timedelta(seconds=2)  # a heartbeat may be on its way
    wait_until(lambda: last_heartbeat() > before, "the kubelet reports again", SECONDS)
    wait_until(lambda: is_ready(core.read_node_status(machine.name)), f"{machine.name} is ready", SECONDS)


def test_killed_cluster_with_real_nodes_leaves_nothing() -> None:
    command = [sys.executable, "-c", STARTS_A_CLUSTER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as owner:
        assert owner.stdout is not None
        try:
            address, text = owner.stdout.readline().decode().split()
            network, directory = network_of(address), Path(text)
            assert_occupies_host(network, directory)
        finally:
            owner.kill()
    wait_until(lambda: not traces(network, directory), "nothing is left", SECONDS)


def assert_occupies_host(network: str, directory: Path) -> None:
    kinds = {trace.partition(" ")[0] for trace in traces(network, directory)}
    assert kinds >= {"link", "cgroup", "process", "directory"}


def network_of(address: str) -> str:
    """Return the name of the interfaces and cgroups of the cluster with this address of a node."""
    return f"lodge-{address.split('.')[2]}"


def traces(network: str, directory: Path) -> list[str]:
    """Return what a cluster with real nodes occupies on this host. A namespace lives as long as its processes."""
    found = [f"link {network}"] if Path("/sys/class/net", network).exists() else []
    found += [f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{network}-*")]
    found += [f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if str(directory) in line]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(directory).encode() in (process / "cmdline").read_bytes():
                found.append(f"process {process.name}")
        except OSError:
            continue
    return [*found, f"directory {directory}"] if directory.exists() else found
