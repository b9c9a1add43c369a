"""The labels of all Kubernetes objects of one Lodge installation.

The labels are used by people and by the Helm chart.
"""

INSTANCE_LABEL = "app.kubernetes.io/instance"
MANAGER_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"

_MANAGER = "lodge"


def labels_of(instance: str, component: str | None = None) -> dict[str, str]:
    """Return the labels for the objects of an instance, or of one of its components."""
    labels = {INSTANCE_LABEL: instance, MANAGER_LABEL: _MANAGER}
    return labels if component is None else labels | {COMPONENT_LABEL: component}


def selector_of(instance: str, component: str) -> str:
    """Return the label selector for the objects of a component."""
    return ",".join(f"{key}={value}" for key, value in labels_of(instance, component).items())
