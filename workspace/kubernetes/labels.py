"""The labels of all objects of one Lodge, by which people and the chart find them."""

INSTANCE_LABEL = "app.kubernetes.io/instance"
MANAGER_LABEL = "app.kubernetes.io/managed-by"
COMPONENT_LABEL = "app.kubernetes.io/component"

_MANAGER = "lodge"


def labels_of(instance: str, component: str | None = None) -> dict[str, str]:
    labels = {INSTANCE_LABEL: instance, MANAGER_LABEL: _MANAGER}
    return labels if component is None else labels | {COMPONENT_LABEL: component}


def selector_of(instance: str, component: str) -> str:
    """Selects the objects of one component by their labels."""
    return ",".join(f"{key}={value}" for key, value in labels_of(instance, component).items())
