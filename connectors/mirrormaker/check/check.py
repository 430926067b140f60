"""`--check`: reports what a config would do, by reading the clusters and changing nothing.

It only reads cluster metadata, topics, topic configs and offsets. Topic selection and the creation
plan use the code of the running connector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.api_versions import broker_apis
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.errors import ConnectError
from connectors.mirror.config import clients as client_configs
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.replication_policy import offset_topics
from connectors.mirror.topics.clusters import CONTACT_TIMEOUT_S, GRACE_S, contact
from connectors.mirrormaker.check.backlog import flow_backlog, stored_offsets
from connectors.mirrormaker.check.flow_check import ClusterView, check_flow
from connectors.mirrormaker.check.renamed_copies import renamed_copies
from connectors.mirrormaker.check.report import (
    CheckReport,
    ClusterReport,
    Finding,
    FlowReport,
    Level,
)
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import (
    check_source,
    flow_plugins,
    loops_of,
    mirrors,
    plan_flows,
    resolved_source_config,
)
from connectors.mirrormaker.mirror_flow import FlowPlan

__all__ = ["check"]

_KEY_AND_LINE = re.compile(r"(\S*\.\S+(?: \(line \d+\))?) (.*)", re.DOTALL)


def check(
    config: MirrorMakerConfig,
    clusters: Sequence[str] | None = None,
    rates: Mapping[str, float] | None = None,
) -> CheckReport:
    """Check everything that would run with these target clusters (None: all). `rates`: the records
    per second that flows were seen to copy, by `A->B`.

    Raises `ConfigError` for invalid properties; the report holds the problems found on the
    clusters.
    """
    config.validate(clusters)
    plans = plan_flows(config, clusters)
    flow_plugins(config, plans)
    for plan in plans:
        check_source(config, plan)
    report = CheckReport()
    for warning in config.warnings:
        report.findings.append(_warned(warning))
    for loop in loops_of(config, plans):
        level = Level.ERROR if loop.certain else Level.WARNING
        report.findings.append(Finding(level, f"{loop.source}->{loop.target}", str(loop)))
    views = _look_at_clusters(_admin_properties(config, plans), report)
    try:
        for plan in plans:
            source, target = views.get(plan.source), views.get(plan.target)
            if source is None or target is None:
                report.flows.append(FlowReport(plan.source, plan.target, mirrors(plan)))
                continue
            flow, findings = check_flow(config, plan, source, target)
            report.flows.append(flow)
            report.findings += findings
            if flow.mirrors:
                _add_stored(config, plan, report, views, (rates or {}).get(flow.name))
    finally:
        for view in views.values():
            view.admin.close()
    return report


def _add_stored(
    config: MirrorMakerConfig,
    plan: FlowPlan,
    report: CheckReport,
    views: Mapping[str, ClusterView],
    rate: float | None,
) -> None:
    """Add what follows from the stored offsets to the last flow of the report, which is the one of
    `plan`: the backlog, and copies that have another name now."""
    worker = WorkerConfig.from_properties(config.worker_config(plan.source, plan.target))
    dedicated = DedicatedFlow(plan.name, resolved_source_config(config, plan), worker)
    flow = report.flows[-1]
    copied = {topic.topic: topic.partitions for topic in flow.topics}
    source, target = views[plan.source], views[plan.target]
    try:
        stored = stored_offsets(dedicated, target.topics)
        with_map = source if offset_topics(dedicated.properties).side == "source" else target
        report.findings += renamed_copies(
            flow, dedicated.config, stored, target.topics, with_map.topics
        )
        flow.backlog = flow_backlog(dedicated, copied, source.admin, stored, rate)
    except ConnectError as error:
        text = f"the backlog is not known: {error}"
        report.findings.append(Finding(Level.WARNING, plan.name, text))


def _warned(warning: str) -> Finding:
    """Turn a warning about the file into a finding. A warning starts with the key and its line."""
    found = _KEY_AND_LINE.match(warning)
    if found is None:
        return Finding(Level.WARNING, "clusters", warning)
    return Finding(Level.WARNING, found[1], found[2])


def _admin_properties(
    config: MirrorMakerConfig, plans: Sequence[FlowPlan]
) -> dict[str, dict[str, str]]:
    """Return admin client properties by alias, taken from the first flow that uses the cluster."""
    found: dict[str, dict[str, str]] = {}
    for plan in plans:
        props = resolved_source_config(config, plan)
        found.setdefault(plan.source, client_configs.source_admin(props))
        found.setdefault(plan.target, client_configs.target_admin(props))
    return found


def _look_at_clusters(
    properties: Mapping[str, Mapping[str, str]], report: CheckReport
) -> dict[str, ClusterView]:
    """Contact all clusters in parallel; return those that answered, by alias."""
    threads = OneShotThreads("check")
    answers = {
        alias: threads.run(alias, partial(_look_at, alias, props))
        for alias, props in properties.items()
    }
    views: dict[str, ClusterView] = {}
    for alias, answer in answers.items():
        servers = properties[alias].get("bootstrap.servers", "")
        try:
            view = answer.result(4 * CONTACT_TIMEOUT_S + GRACE_S)
        except (ConnectError, TimeoutError) as error:
            report.clusters.append(ClusterReport(alias, servers, error=str(error)))
            report.findings.append(Finding(Level.ERROR, alias, str(error)))
            continue
        views[alias] = view
        report.clusters.append(
            ClusterReport(alias, servers, view.cluster_id, view.brokers, len(view.topics))
        )
    threads.stop()
    return views


def _look_at(alias: str, props: Mapping[str, str]) -> ClusterView:
    admin = Admin(props)
    try:
        return ClusterView(
            alias,
            admin,
            contact(admin, alias, props, CONTACT_TIMEOUT_S),
            admin.broker_count(CONTACT_TIMEOUT_S),
            admin.list_topics(CONTACT_TIMEOUT_S),
            broker_apis(props, Deadline(CONTACT_TIMEOUT_S)),
        )
    except ConnectError:
        admin.close()
        raise
