"""Alert rules and dashboards: promtool's own tests of the rules, runbook links, and metric
names."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
import yaml

from connect.metrics.exposition import render
from connect.metrics.naming import Family
from connect.metrics.registry import MetricRegistry
from connectors.mirror.checkpoints.metrics import CheckpointMetrics
from connectors.mirror.metrics import CopyTotals, PartitionMetrics
from tests.support.deployment.monitoring import ALERTS, alert_metrics, dashboard_metrics
from tests.support.docs.pages import DOCS, anchors
from tests.support.flows.partition_metrics import show

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed"
)
TIMEOUT_S = 60.0


@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
        ["check", "config", "--syntax-only", "../compose/prometheus.yml"],
    ],
    ids=["check", "test", "compose"],
)
def test_promtool_agrees_with_the_rules(arguments: list[str]) -> None:
    ended = subprocess.run(
        ["promtool", *arguments],
        cwd=ALERTS.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_has_a_section_of_the_page_and_a_test() -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    page = DOCS / "how-to" / "alerts.md"
    tests = yaml.safe_load((ALERTS.parent / "alerts_test.yml").read_text())["tests"]
    tested = {
        each["alertname"]
        for test in tests
        for each in test["alert_rule_test"]
        if each["exp_alerts"]
    }
    for rule in rules:
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert DOCS / path.lstrip("/").replace(".html", ".md") == page
        assert anchor in anchors(page)
        assert rule["alert"] in page.read_text()
        assert rule["alert"] in tested


def test_the_site_has_pages_where_the_runbooks_lead() -> None:
    """Pages are files that end with .html, as the paths of the runbooks do."""
    assert "\nuse_directory_urls: false\n" in (DOCS.parent / "mkdocs.yml").read_text()


def test_the_command_of_the_page_puts_an_address_before_each_runbook() -> None:
    page = (DOCS / "how-to" / "alerts.md").read_text()
    command = next(line for line in page.splitlines() if line.startswith("sed "))
    words = shlex.split(command.partition(" > ")[0])
    ended = subprocess.run(
        words, cwd=DOCS.parent, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    for rule in yaml.safe_load(ended.stdout)["groups"][0]["rules"]:
        url = rule["annotations"]["runbook_url"]
        assert url.startswith("https://docs.example.org/how-to/alerts.html#"), url


def test_metrics_of_partitions_and_checkpoints_are_named_as_they_are_served() -> None:
    registry = MetricRegistry()
    partition = PartitionMetrics("a", "b", "a.t", 0)
    partition.acked(5, -1, 0)
    show(registry, partition)
    CheckpointMetrics(registry, "a", "b").acknowledged("g", "a.t", 0, 0)
    flow = {"source": "a", "target": "b", "connector": "c", "task": "0"}
    CopyTotals().register(registry, "consumer", "producer", flow)
    text = "".join(render(registry.collect(), [Family.A]))
    # These two appear once the source was asked; the integration test scrapes them.
    later = {"record_lag", "time_lag_ms", "time_to_loss_ms"}
    for name in alert_metrics() | dashboard_metrics():
        if "_mirror_" in name and not name.endswith(tuple(later)):
            assert f"\n{name}{{" in text, name
