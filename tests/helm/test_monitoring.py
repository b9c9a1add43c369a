"""The PodMonitor, the alerts and the dashboard of the chart."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from pyspark.sql.connect.proto import base_pb2

from lodge.settings import ServeSettings
from tests.cluster.builds import program
from tests.helm.cases import EVERYTHING
from tests.helm.chart import CHART, MINIMAL, Helm, find_object, of_kind, with_values

REPOSITORY = CHART.parents[1]
REFERENCE = REPOSITORY / "docs" / "reference" / "metrics.md"
RUN_BOOKS = REPOSITORY / "docs" / "how-to" / "run-books.md"
MONITORED = with_values(
    MINIMAL,
    {"monitoring": {"podMonitor": {"enabled": True}, "rules": {"enabled": True}, "dashboard": {"enabled": True}}},
)
OF_PROMETHEUS = {"up"}
LABELS_OF_TARGETS = {"container", "job", "namespace", "pod"}
MINUTES = 50


@pytest.fixture(scope="module")
def rules(helm: Helm) -> Sequence[Mapping[str, Any]]:
    (rule,) = of_kind(helm.template(MONITORED), "PrometheusRule")
    (group,) = rule["spec"]["groups"]
    found: Sequence[Mapping[str, Any]] = group["rules"]
    return found


def test_chart_creates_nothing_for_prometheus_by_default(helm: Helm) -> None:
    kinds = {manifest["kind"] for manifest in helm.template(MINIMAL)}
    assert not {"PodMonitor", "PrometheusRule"} & kinds


def test_pod_monitor_selects_gateways_and_reapers(helm: Helm) -> None:
    manifests = helm.template(with_values(EVERYTHING, {"networkPolicy": {"metrics": []}}))
    (monitor,) = of_kind(manifests, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    selected = set()
    for kind in ("Deployment", "StatefulSet"):
        for workload in of_kind(manifests, kind):
            pod = workload["spec"]["template"]
            if _selects(monitor["spec"]["selector"], pod["metadata"]["labels"]):
                selected.add(workload["metadata"]["name"])
                ports = {port["name"] for container in pod["spec"]["containers"] for port in container.get("ports", ())}
                assert endpoint["port"] in ports
    assert selected == {"front-gateway", "front-reaper"}
    for component in ("gateway", "reaper"):
        policy = find_object(manifests, "NetworkPolicy", f"front-{component}")
        assert {"ports": [{"port": endpoint["port"], "protocol": "TCP"}]} in policy["spec"]["ingress"]


def test_values_change_labels_of_alerts_and_leave_alerts_out(helm: Helm) -> None:
    values = {
        "rules": {"alertLabels": {"severity": "page", "team": "data"}, "disabled": ["LodgeNoReaper"]},
        "runbookUrl": "https://docs.example.com/run-books",
    }
    manifests = helm.template(with_values(MONITORED, {"monitoring": values}), release="etl", namespace="here")
    (rule,) = of_kind(manifests, "PrometheusRule")
    alerts = {alert["alert"]: alert for alert in rule["spec"]["groups"][0]["rules"]}
    assert "LodgeNoReaper" not in alerts
    assert alerts["LodgeNoGateway"]["labels"] == {"severity": "page", "team": "data"}
    assert alerts["LodgeNoGateway"]["annotations"]["runbook_url"] == "https://docs.example.com/run-books#lodgenogateway"
    assert all('job="etl-lodge",namespace="here"' in alert["expr"] for alert in alerts.values())
    assert "$SELECTOR" not in yaml.safe_dump(rule)


def test_each_alert_has_a_run_book(rules: Sequence[Mapping[str, Any]]) -> None:
    text = RUN_BOOKS.read_text()
    sections = {section.partition("\n")[0]: section for section in text.split("\n## ")[1:]}
    names = [rule["alert"] for rule in rules]
    assert [name for name in sections if name.startswith("Lodge")] == names
    for rule in rules:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        assert rule["annotations"]["runbook_url"] == f"docs/how-to/run-books.md#{rule['alert'].lower()}"
        for part in ("**Meaning.**", "**Check.**", "**Fix.**"):
            assert part in sections[rule["alert"]], (rule["alert"], part)


def test_queries_use_documented_metrics_and_labels(rules: Sequence[Mapping[str, Any]]) -> None:
    documented = dict(_documented_metrics())
    queries = [*(rule["expr"] for rule in rules), *_dashboard_queries()]
    used = {metric for query in queries for metric in _metrics(query)}
    assert used <= documented.keys() | OF_PROMETHEUS
    for query in queries:
        for metric, matchers in re.findall(r"([a-z_]+)\{([^}]*)\}", query):
            labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!=|!~|=)", matchers)) - LABELS_OF_TARGETS
            assert labels <= documented.get(_base(metric), set()), (metric, labels)
    missing = documented.keys() - {metric for query in _dashboard_queries() for metric in _metrics(query)}
    assert missing == {"lodge_gateway_unauthenticated_allowed"}


def test_alerts_select_values_that_exist(rules: Sequence[Mapping[str, Any]]) -> None:
    known = set(re.findall(r"`([A-Za-z_]+)`", REFERENCE.read_text()))
    known |= set(ServeSettings.model_fields) | {code.name for code in grpc.StatusCode}
    known |= {method.name for method in base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"].methods}
    for rule in rules:
        matchers = re.findall(r'([a-z_]+)\s*(?:=~|!=|!~|=)\s*"([^"]*)"', rule["expr"])
        values = {value for label, text in matchers if label not in LABELS_OF_TARGETS for value in text.split("|")}
        assert values <= known, rule["alert"]


def test_promtool_accepts_rules_and_queries_of_dashboard(rules: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    queries = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(_dashboard_queries())
    ]
    assert len(queries) > 20
    groups = [{"name": "alerts", "rules": list(rules)}, {"name": "dashboard", "rules": queries}]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups}))
    _promtool("check", "rules", "--lint=all", "--lint-fatal", file)


def test_dashboard_is_in_a_config_map_for_grafana(helm: Helm) -> None:
    values = with_values(MONITORED, {"monitoring": {"dashboard": {"annotations": {"grafana_folder": "Lodge"}}}})
    config = find_object(helm.template(values), "ConfigMap", "lodge-dashboard")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["annotations"] == {"grafana_folder": "Lodge"}
    dashboard = json.loads(config["data"]["lodge.json"])
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23


@dataclass(frozen=True, slots=True)
class Case:
    """Series that differ from those of a healthy Lodge, and the alerts that fire.

    Attributes:
        changed: Values in promtool's notation, one for each minute, by series.
        firing: The alerts, by minute.
    """

    changed: Mapping[str, str]
    firing: Mapping[int, set[str]] = field(default_factory=dict)


def _gateway(metric: str, pod: int = 0, **labels: str) -> str:
    return _series(f"lodge_gateway_{metric}", "gateway", pod, **labels)


def _reaper(metric: str, pod: int = 0, **labels: str) -> str:
    return _series(f"lodge_reaper_{metric}", "reaper", pod, **labels)


def _series(name: str, container: str, pod: int, **labels: str) -> str:
    target = {"job": "lodge", "namespace": "default", "container": container, "pod": f"{container}-{pod}"}
    matchers = ",".join(f'{key}="{value}"' for key, value in (target | labels).items())
    return f"{name}{{{matchers}}}"


def _rising(by: int, *, after: int = 0) -> str:
    return f"0x{after - 1} 0+{by}x{MINUTES - after}" if after else f"0+{by}x{MINUTES}"


HEALTHY: Mapping[str, str] = {
    **{_series("up", container, pod): f"1x{MINUTES}" for container in ("gateway", "reaper") for pod in (0, 1)},
    **{_gateway("lease_valid", pod): f"1x{MINUTES}" for pod in (0, 1)},
    **{_gateway("lease_renewals_total", pod, outcome="succeeded"): _rising(12) for pod in (0, 1)},
    **{_gateway("lease_renewals_total", pod, outcome="failed"): f"0x{MINUTES}" for pod in (0, 1)},
    **{_gateway("lease_lapses_total", pod): f"0x{MINUTES}" for pod in (0, 1)},
    **{_gateway("event_loop_lag_seconds", pod): f"0.002x{MINUTES}" for pod in (0, 1)},
    **{_gateway("requests_total", pod, method="ExecutePlan", code="OK"): _rising(60) for pod in (0, 1)},
    **{_gateway("requests_total", pod, method="ExecutePlan", code="INTERNAL"): _rising(9) for pod in (0, 1)},
    **{_gateway("requests_total", pod, method="Config", code="UNAVAILABLE"): f"0x{MINUTES}" for pod in (0, 1)},
    **{
        _gateway("limits_reached_total", pod, setting=setting): f"0x{MINUTES}"
        for setting in ("max_sessions", "max_principal_sessions")
        for pod in (0, 1)
    },
    **{_gateway("authentication_sources_failing", pod): f"0x{MINUTES}" for pod in (0, 1)},
    **{_gateway("audit_events_lost_total", pod): f"0x{MINUTES}" for pod in (0, 1)},
    **{
        _series("lodge_log_lines_lost_total", name, pod): f"0x{MINUTES}"
        for name in ("gateway", "reaper")
        for pod in (0, 1)
    },
    **{_gateway("certificate_expiry_timestamp_seconds", pod): f"{30 * 86400}x{MINUTES}" for pod in (0, 1)},
    **{_reaper("acting", pod): f"{1 - pod}x{MINUTES}" for pod in (0, 1)},
    **{
        _reaper("held_back", pod, kind=kind): f"0x{MINUTES}"
        for kind in ("records", "storage", "writes", "root", "mass_expiry")
        for pod in (0, 1)
    },
    **{_reaper("last_look_timestamp_seconds", pod): f"0+60x{MINUTES}" for pod in (0, 1)},
    **{_reaper("work", pod, queue="purges", state="failing"): f"0x{MINUTES}" for pod in (0, 1)},
}
"""The series of two gateways and two reapers."""

BOTH = (0, 1)
CASES: Mapping[str, Case] = {
    "healthy": Case({}, {5: set(), 30: set(), 49: set()}),
    "all gateways are gone": Case(
        {_gateway("lease_valid", pod): "1x10 stale" for pod in BOTH}, {10: set(), 14: {"LodgeNoGateway"}}
    ),
    "one gateway of two is gone": Case({_gateway("lease_valid"): "1x10 stale"}, {30: set()}),
    "a gateway drains": Case({_gateway("lease_valid"): "1x9 0x3 stale"}, {12: set(), 14: set(), 30: set()}),
    "a gateway has no lease": Case(
        {_gateway("lease_valid"): "1x9 0x40"}, {12: set(), 17: {"LodgeGatewayWithoutLease"}}
    ),
    "no gateway has a lease": Case(
        {_gateway("lease_valid", pod): "1x9 0x40" for pod in BOTH}, {17: {"LodgeGatewayWithoutLease", "LodgeNoGateway"}}
    ),
    "a pod does not respond": Case({_series("up", "reaper", 1): "1x9 0x40"}, {15: set(), 22: {"LodgePodDown"}}),
    "renewals fail": Case(
        {
            _gateway("lease_renewals_total", outcome="succeeded"): "0+12x10 120x40",
            _gateway("lease_renewals_total", outcome="failed"): _rising(12, after=11),
        },
        {10: set(), 16: {"LodgeLeaseRenewalsFail"}},
    ),
    "some renewals fail": Case(
        {_gateway("lease_renewals_total", outcome="failed"): _rising(2)},
        {30: set()},
    ),
    "a lease lapses": Case({_gateway("lease_lapses_total"): "0x9 1x40"}, {12: {"LodgeLeaseLapsed"}, 40: set()}),
    "a gateway is restarted": Case(
        {_gateway("restarts_total"): "0x9 1x40"}, {12: {"LodgeGatewayRestarted"}, 40: set()}
    ),
    "a gateway is slow": Case(
        {_gateway("event_loop_lag_seconds"): "0x9 2x40"}, {12: set(), 17: {"LodgeGatewayOverloaded"}}
    ),
    "a gateway is slow for a moment": Case(
        {_gateway("event_loop_lag_seconds"): "0x9 5x1 0x40"}, {10: set(), 14: set()}
    ),
    "a backend does not respond": Case(
        {_gateway("requests_total", pod, method="Config", code="UNAVAILABLE"): _rising(30, after=10) for pod in BOTH},
        {10: set(), 25: {"LodgeBackendUnavailable"}},
    ),
    "one of many backends does not respond": Case(
        {_gateway("requests_total", method="Config", code="UNAVAILABLE"): _rising(8, after=10)},
        {10: set(), 25: {"LodgeBackendUnavailable"}},
    ),
    "a few requests fail while gateways are replaced": Case(
        {_gateway("requests_total", method="Config", code="UNAVAILABLE"): "0x9 0+20x2 40x40"},
        {12: set(), 14: set(), 17: set()},
    ),
    "most statements fail": Case(
        {
            _gateway("requests_total", pod, method="ExecutePlan", code="INTERNAL"): _rising(200, after=10)
            for pod in BOTH
        },
        {12: set(), 45: {"LodgeStatementsFail"}},
    ),
    "few statements fail": Case(
        {
            **{_gateway("requests_total", pod, method="ExecutePlan", code="OK"): f"0x{MINUTES}" for pod in BOTH},
            **{_gateway("requests_total", pod, method="ExecutePlan", code="INTERNAL"): _rising(1) for pod in BOTH},
        },
        {45: set()},
    ),
    "one principal reaches a limit": Case(
        {_gateway("limits_reached_total", setting="max_principal_sessions"): _rising(5)}, {30: set()}
    ),
    "all principals reach a limit": Case(
        {_gateway("limits_reached_total", setting="max_sessions"): _rising(5)}, {30: {"LodgeLimitReached"}}
    ),
    "credentials cannot be verified": Case(
        {_gateway("authentication_sources_failing"): "0x9 1x40"}, {12: set(), 17: {"LodgeAuthenticationSourceFails"}}
    ),
    "audit events are lost": Case(
        {_gateway("audit_events_lost_total"): "0x9 7x40"}, {12: {"LodgeAuditEventsLost"}, 40: set()}
    ),
    "lines of the log are lost": Case(
        {_series("lodge_log_lines_lost_total", "reaper", 0): "0x9 7x40"}, {12: {"LodgeLogLinesLost"}, 40: set()}
    ),
    "a certificate expires": Case(
        {_gateway("certificate_expiry_timestamp_seconds"): f"{7 * 86400}x{MINUTES}"}, {30: {"LodgeCertificateExpires"}}
    ),
    "no reaper acts": Case({_reaper("acting"): "1x9 0x40"}, {12: set(), 17: {"LodgeNoReaper"}}),
    "all reapers are gone": Case({_reaper("acting", pod): "1x9 stale" for pod in BOTH}, {17: {"LodgeNoReaper"}}),
    "another reaper takes over": Case(
        {_reaper("acting"): "1x9 stale", _reaper("acting", 1): "0x11 1x40"}, {11: set(), 30: set()}
    ),
    "a reaper cannot read records": Case(
        {
            _reaper("held_back", kind="records"): "0x9 1x40",
            _reaper("last_look_timestamp_seconds"): "0+60x9 540x40",
        },
        {15: set(), 45: {"LodgeReaperHeldBack"}},
    ),
    "many sessions appear dead": Case(
        {_reaper("held_back", pod, kind="mass_expiry"): "0x9 1x40" for pod in BOTH}, {12: {"LodgeMassExpiry"}}
    ),
    "many sessions appear dead to a reaper on standby": Case(
        {_reaper("held_back", 1, kind="mass_expiry"): "0x9 1x40"}, {30: set()}
    ),
    "a reaper completes no pass": Case(
        {_reaper("last_look_timestamp_seconds"): "0+60x9 540x40"}, {12: set(), 25: {"LodgeReaperStalled"}}
    ),
    "a reaper has not completed its first pass": Case(
        {_reaper("last_look_timestamp_seconds", 1): f"0x{MINUTES}"}, {45: set()}
    ),
    "files cannot be removed": Case(
        {_reaper("work", queue="purges", state="failing"): "0x9 3x40"}, {30: set(), 45: {"LodgeRemovalsFail"}}
    ),
    "another release has no lease": Case(
        {_gateway("lease_valid").replace('job="lodge"', 'job="other"'): f"0x{MINUTES}"}, {30: set()}
    ),
}


def test_alerts_fire_when_they_should(rules: Sequence[Mapping[str, Any]], tmp_path: Path) -> None:
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values} for series, values in (HEALTHY | case.changed).items()
            ],
            "promql_expr_test": [
                {
                    "expr": 'max by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": f"{minute}m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(firing)],
                }
                for minute, firing in case.firing.items()
            ],
        }
        for name, case in CASES.items()
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "lodge", "rules": list(rules)}]}))
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    _promtool("test", "rules", file)
    fired = {alert for case in CASES.values() for firing in case.firing.values() for alert in firing}
    assert fired == {rule["alert"] for rule in rules}


def _promtool(*arguments: str | Path) -> None:
    result = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert not result.returncode, result.stdout + result.stderr


def _documented_metrics() -> Iterator[tuple[str, set[str]]]:
    """Return the metrics of the reference page with their labels."""
    for line in REFERENCE.read_text().splitlines():
        if line.startswith("| `lodge_"):
            _, name, _, labels, *_ = line.split("|")
            yield name.strip(" `"), set(re.findall(r"[a-z_]+", labels))


def _dashboard_queries() -> Sequence[str]:
    dashboard = json.loads((CHART / "files" / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def _metrics(query: str) -> set[str]:
    return {_base(name) for name in re.findall(r"([a-z_]+)\{", query)}


def _base(metric: str) -> str:
    return metric.removesuffix("_bucket")


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    expressions = selector["matchExpressions"]
    assert all(each["operator"] == "In" for each in expressions)
    return selector["matchLabels"].items() <= labels.items() and all(
        labels[each["key"]] in each["values"] for each in expressions
    )
