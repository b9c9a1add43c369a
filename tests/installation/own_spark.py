"""A Spark Connect server that belongs to no release, and the values of a release that uses it."""

from tests.helm.chart import Values
from tests.installation.installation import IMAGES, Installation
from tests.quick_java import QUICK_JAVA_OPTIONS

CLAIM = "files"
OWN_SPARK: Values = {
    "backend": {"addresses": ["sc://spark:15002"]},
    "volume": {"existingClaim": CLAIM, "create": False},
}
"""The values of a release that uses the server and its claim."""

_SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["pod-template-hash"],
        }
    ]
}
"""By default, both new pods of an upgrade can start on the same node, because the old ones count too."""

NODE_LOSS: Values = {
    "config": {"lease_duration": "10s", "grace_period": "10s", "session_idle_timeout": "15s"},
    "gateway": {"service": {"type": "NodePort", "externalTrafficPolicy": "Local"}, **_SPREAD},
    "reaper": _SPREAD,
}
"""The values with which another gateway soon adopts the sessions of a lost node. It ends a session without a client
after the idle time. Each node has a gateway and a reaper, and leads clients to its own gateway."""

_USER = 185


def start_spark(installation: Installation, *, node: str) -> None:
    """Start a server as a pod on a node, with a Service, and a claim that it shares with Lodge."""
    image = f"{IMAGES['spark']['image']['repository']}:0.1.0"
    settings = {
        "spark.driver.extraJavaOptions": QUICK_JAVA_OPTIONS,
        "spark.connect.grpc.binding.address": "0.0.0.0",  # noqa: S104 - reached by the Service
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    probe = {
        "exec": {"command": ["lodge-spark-probe"]},
        "periodSeconds": 3,
        "timeoutSeconds": 15,
        "failureThreshold": 60,
    }
    container = {
        "name": "spark",
        "image": image,
        "args": ["server", "--master", "local[2]", *options],
        "startupProbe": probe,
        "resources": {"requests": {"memory": "2Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "files", "mountPath": "/workspace"}],
    }
    pod = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": CLAIM}}],
    }
    labels = {"app": "spark"}
    core, namespace = installation.core, installation.namespace
    installation.claim(CLAIM)
    service = {"selector": labels, "ports": [{"port": 15002}]}
    core.create_namespaced_service(namespace, {"metadata": {"name": "spark"}, "spec": service})
    core.create_namespaced_pod(namespace, {"metadata": {"name": "spark", "labels": labels}, "spec": pod})
