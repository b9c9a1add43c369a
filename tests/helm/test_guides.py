"""The chart accepts the values in the guides about Kubernetes, and restarts the pods that they name."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.helm.chart import CERTIFIED, Helm, Values
from tests.helm.guides import GUIDES, PAGES, examples

CHANGES: Mapping[str, Values] = {
    "admins": {"admins": ["ops"]},
    "authentication": {"authentication": {"kubernetes": {"audiences": ["other"]}}},
    "backend": {"spark": {"enabled": True}, "backend": {"addresses": ["sc://spark:15002"]}},
    "config": {"config": {"log_level": "debug"}},
    "extraVolumes": {
        "extraVolumes": [{"name": "raw", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "raw", "mountPath": "/raw"}],
    },
    "gateway": {"gateway": {"podLabels": {"team": "data"}}},
    "gateway.autoscaling": {"gateway": {"autoscaling": {"enabled": True}}},
    "gateway.replicas": {"gateway": {"replicas": 3}},
    "gateway.resources": {"gateway": {"resources": {"limits": {"memory": "3Gi"}}}},
    "gateway.service": {"gateway": {"service": {"type": "NodePort"}}},
    "global.imageRegistry": {"global": {"imageRegistry": "registry.example.com"}},
    "image": {"image": {"tag": "2"}},
    "monitoring": {"monitoring": {"dashboard": {"enabled": True}}},
    "networkPolicy": {"networkPolicy": {"enabled": False}},
    "podSecurityContext": {"podSecurityContext": {"runAsUser": 1000}},
    "reaper": {"reaper": {"podLabels": {"team": "data"}}},
    "s3": {"s3": {"credentials": {"secretName": "bucket"}}},
    "spark": {"spark": {"drainSeconds": 10}},
    "spark.config": {"spark": {"config": {"spark.sql.shuffle.partitions": 16}}},
    "spark.executor": {"spark": {"executor": {"cores": 2}}},
    "spark.image": {"spark": {"image": {"tag": "2"}}},
    "spark.memory": {"spark": {"memory": "1g"}},
    "spark.replicas": {"spark": {"replicas": 2}},
    "volume.existingClaim": {"volume": {"existingClaim": "files"}},
    "workspaces": {"workspaces": {"dfs": "file:///workspace/data"}},
}
"""An example of a change for each value in the table of restarts."""


@pytest.mark.parametrize("page", [page for page in PAGES if list(examples(page))], ids=lambda page: page.stem)
def test_chart_accepts_each_example(page: Path, helm: Helm) -> None:
    for block, values in examples(page):
        assert helm.template(values), block


def test_guides_have_examples() -> None:
    assert sum(len(list(examples(page))) for page in GUIDES.glob("*.md")) > 10


@pytest.mark.slow
def test_pods_restart_as_the_guide_says(helm: Helm) -> None:
    before = pod_templates(helm, {})
    differences = []
    for names, lodge, spark in restarts():
        for name in names:
            after = pod_templates(helm, CHANGES[name])
            changed = {workload for workload in before if before[workload] != after[workload]}
            if (bool(changed - {"lodge-spark"}), "lodge-spark" in changed) != (lodge, spark):
                differences.append((name, changed))
    assert differences == []


def restarts() -> Iterator[tuple[list[str], bool, bool]]:
    """Yield the rows of the table: values, and whether Lodge and whether Spark restarts after a change."""
    section = (GUIDES / "upgrade.md").read_text().partition("\n## Which pods restart\n")[2]
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    for row in rows[2:]:
        values, lodge, spark = (cell.strip() for cell in row.strip("|").split("|"))
        yield re.findall(r"`([\w.]+)`", values), lodge.startswith("restart"), spark.startswith("restart")


def pod_templates(helm: Helm, values: Values) -> Mapping[str, object]:
    """Return the templates of the pods that run all the time, by the names of their workloads."""
    manifests = helm.template({**values, "tls": CERTIFIED["tls"]})
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in manifests
        if each["kind"] in {"Deployment", "StatefulSet"}
    }
