"""Writes the values of the chart into docs/reference/chart-values.md.

    python -m scripts.chart_values

The descriptions come from values.schema.json, and the defaults from values.yaml. Therefore the page always matches the
chart.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[1]
CHART = REPOSITORY / "helm" / "lodge"
PAGE = REPOSITORY / "docs" / "reference" / "chart-values.md"

_INTRODUCTION = """\
<!-- `make chart-docs` writes this page. -->
# Values of the chart

This page lists all values of the Helm chart in [helm/lodge](../../helm/lodge). The comments in
[values.yaml](../../helm/lodge/values.yaml) explain them in context. The chart rejects all other values.
"""
_WHOLE = frozenset(
    {
        "gateway.autoscaling.behavior",
        "monitoring.dashboard.labels",
        "podSecurityContext",
        "securityContext",
        "workspaces",
    }
)
"""Maps that a user sets as a whole, or to which a user adds entries."""


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return every value by its path, such as ``gateway.replicas``."""
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and path not in _WHOLE and not path.endswith(".resources"):
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def page() -> str:
    """Return the content of the page."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    sections: dict[str, dict[str, Any]] = {"General": {}}
    for name, value in values.items():
        rows = dict(leaves({name: value}))
        section = "General" if set(rows) == {name} else name
        sections.setdefault(section, {}).update(rows)
    parts = [_INTRODUCTION]
    for section, rows in sections.items():
        parts.append(f"## {section}\n\n| value | default | meaning |\n| --- | --- | --- |")
        parts += [f"| `{path}` | `{_text(default)}` | {description(schema, path)} |" for path, default in rows.items()]
        parts.append("")
    return "\n".join(parts)


def description(schema: Mapping[str, Any], path: str) -> str:
    """Return the description of a value; empty if it has none."""
    node: Mapping[str, Any] = schema
    text = ""
    for key in path.split("."):
        node = _definition(schema, node)["properties"][key]
        text = node.get("description", "")
    found: str = text or _definition(schema, node).get("description", "")
    return found.replace("|", "\\|")


def _definition(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "properties" in node or "$ref" not in node:
        return node
    found: Mapping[str, Any] = schema["definitions"][node["$ref"].rpartition("/")[2]]
    return found


def _text(default: object) -> str:
    return json.dumps(default, ensure_ascii=False).replace("|", "\\|")


def main(arguments: Sequence[str]) -> int:
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
