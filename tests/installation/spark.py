"""A Spark Connect server that belongs to no release."""

from tests.conftest import QUICK_COMPILER
from tests.installation.installation import IMAGES, Installation

SPARK_ADDRESS = "sc://spark:15002"
QUICK_SPARK = {f"spark.{pod}.extraJavaOptions": QUICK_COMPILER for pod in ("driver", "executor")}
"""The configuration of Spark for tests that do not need its default values."""

_USER = 185


def start_spark(installation: Installation, claim: str) -> None:
    """Start a server as a pod, with a Service, and a claim that it shares with Lodge."""
    image = f"{IMAGES['spark']['image']['repository']}:0.1.0"
    settings = QUICK_SPARK | {
        "spark.connect.grpc.binding.address": "0.0.0.0",  # noqa: S104 - reached by the Service
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    probe = {"exec": {"command": ["lodge-spark-probe"]}, "periodSeconds": 3, "timeoutSeconds": 15}
    container = {
        "name": "spark",
        "image": image,
        "args": ["server", "--master", "local[2]", *options],
        "readinessProbe": probe,
        "resources": {"requests": {"memory": "2Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "files", "mountPath": "/workspace"}],
    }
    pod = {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": claim}}],
    }
    labels = {"app": "spark"}
    core, namespace = installation.core, installation.namespace
    installation.claim(claim)
    service = {"selector": labels, "ports": [{"port": 15002}]}
    core.create_namespaced_service(namespace, {"metadata": {"name": "spark"}, "spec": service})
    core.create_namespaced_pod(namespace, {"metadata": {"name": "spark", "labels": labels}, "spec": pod})
