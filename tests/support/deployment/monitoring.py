"""The alert rules, scrape configuration and dashboards of deploy/, and the metric names in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

__all__ = [
    "ALERTS",
    "DASHBOARD",
    "OPERATOR_LABELS",
    "SCRAPES",
    "alert_metrics",
    "dashboard_metrics",
]

DEPLOY = Path(__file__).parents[3] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
SCRAPES = DEPLOY / "compose" / "prometheus.yml"
DASHBOARD = DEPLOY / "grafana" / "kafka-connect-mirror.json"

OPERATOR_LABELS = {
    "namespace",
    "kubernetes_pod_name",
    "strimzi_io_kind",
    "strimzi_io_cluster",
}
"""Labels that Strimzi's dashboards ask for and that Prometheus adds to the series of a pod."""

_NAME = re.compile(r"\b(?:kafka_connect|process)_\w+")


def alert_metrics() -> set[str]:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    return {name for rule in rules for name in _NAME.findall(rule["expr"])}


def dashboard_metrics() -> set[str]:
    document = json.loads(DASHBOARD.read_text())
    variables = [each.get("query", "") for each in document["templating"]["list"]]
    targets = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    return {name for text in (*variables, *targets) for name in _NAME.findall(text)}
