"""The reference pages of settings, metrics and log events, compared with the code."""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from gateway.metrics import GatewayGauges, GatewayMetrics, GatewayState
from gateway.sessions.life_signs import LifeSigns
from lodge.log_output import LogOutput
from lodge.serve import Restarts
from lodge.setting_types import Metavar
from lodge.settings import ReapSettings, ServeSettings
from reaper.metrics import Gauges, Metrics
from reaper.work_queue import WorkQueue

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY / "docs" / "reference"
PACKAGES = ("gateway", "lodge", "reaper", "workspace")
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "log"}
EVENT = re.compile(r"[a-z]+(_[a-z]+)+")


def rows(page: str, heading: str = "") -> Iterator[list[str]]:
    """Yield the cells of the table rows whose first cell is code, perhaps only below a heading."""
    text = (REFERENCE / page).read_text()
    section = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0] if heading else text
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield cells


def setting_row(name: str, field: Any) -> list[str]:
    meaning, _, default = field.description.rpartition(" Default: ")
    placeholder = next((f" {item.text}" for item in field.metadata if isinstance(item, Metavar)), "")
    return [f"`--{name.replace('_', '-')}{placeholder}`", default.removesuffix("."), meaning]


def literal_events(tree: ast.AST) -> Iterator[str]:
    """Yield the names of events that a module logs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            name = node.args[0]
            names: Sequence[ast.expr] = [name.body, name.orelse] if isinstance(name, ast.IfExp) else [name]
            for each in names if called in LOG_METHODS else ():
                if isinstance(each, ast.Constant) and EVENT.fullmatch(str(each.value)):
                    yield str(each.value)


@pytest.mark.parametrize("heading", ["## Both commands", "## Only `lodge serve`"])
def test_settings_table_equals_the_help_texts(heading: str) -> None:
    fields = ReapSettings.model_fields
    if heading != "## Both commands":
        fields = {name: field for name, field in ServeSettings.model_fields.items() if name not in fields}
    assert list(rows("settings.md", heading)) == [setting_row(name, field) for name, field in fields.items()]


def test_metrics_table_equals_the_metrics() -> None:
    queue = WorkQueue(monotonic=lambda: 0.0, log=mock.Mock())
    last_pass = SimpleNamespace(snapshot=SimpleNamespace(records=(), locations=(), trash=()), held=(), spared=0)
    reaper = SimpleNamespace(may_act=lambda: True, last_pass=last_pass, ends=queue, purges=queue)
    registry = CollectorRegistry()
    registry.register(LogOutput(sys.stderr.fileno(), str))
    registry.register(Restarts(LifeSigns()))
    GatewayMetrics(registry)
    registry.register(GatewayGauges(lambda: GatewayState(certificate_expires_at=0.0)))
    Metrics(registry)
    registry.register(Gauges(lambda: SimpleNamespace(reaper=reaper)))  # type: ignore[arg-type,return-value]
    described = [
        (f"`{metric.name}{'_total' if metric.type == 'counter' else ''}`", metric.type, metric.documentation)
        for metric in registry.collect()
    ]
    listed = [(cells[0], cells[1], cells[-1]) for cells in rows("metrics.md") if cells[0].startswith("`lodge_")]
    assert listed == described


def test_log_events_page_lists_the_events_of_the_code() -> None:
    listed = [cells[0].strip("`") for cells in rows("log-events.md")]
    assert len(listed) == len(set(listed))
    sources = [path.read_text() for package in PACKAGES for path in sorted((REPOSITORY / package).rglob("*.py"))]
    logged = {event for source in sources for event in literal_events(ast.parse(source))}
    assert logged - set(listed) == set(), "events that the page does not list"
    assert [event for event in listed if not any(f'"{event}"' in source for source in sources)] == []
