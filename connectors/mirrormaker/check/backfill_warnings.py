"""Warnings before a backfill: old records may exceed the target's age limits.

Copied records keep their timestamps. If a timestamp is older than the copy's retention, the target
deletes the record as soon as its segment is closed. If it is older than
`message.timestamp.before.max.ms`, the target rejects the record.
"""

from __future__ import annotations

from collections.abc import Sequence

from connect.clock import SYSTEM_CLOCK
from connectors.mirror.backfill.cluster_facts import ClusterFacts, ClusterSurvey, described_configs
from connectors.mirror.backfill.scheduler import PartitionJob
from connectors.mirror.filters import config_property_filter
from connectors.mirror.topics.create import copied_configs
from connectors.mirrormaker.check.topic_checks import (
    CopyConfigs,
    age_finding,
    config_findings,
    effective_configs,
    older_records,
    time_limits,
    topic_defaults,
)

__all__ = ["backfill_warnings"]

_SAMPLED = 20
"""Maximum number of target topics described to find out the broker defaults for a new topic."""


def backfill_warnings(
    facts: ClusterFacts, jobs: Sequence[PartitionJob], gatherer: ClusterSurvey
) -> list[str]:
    """Return one sentence per warning. Queries both clusters; raises one of `connect.errors`."""
    warnings = list(facts.warnings)
    for copy in _copies(facts, gatherer):
        of_it = [job for job in jobs if job.source[0] == copy.topic and job.left]
        if not of_it:
            continue
        warnings += [f"{copy.remote}: {each.text}" for each in config_findings(copy, None)]
        for key, limit_ms in time_limits(copy).items():
            young = gatherer.source_admin.records_at(
                {job.source: SYSTEM_CLOCK.now_ms() - limit_ms for job in of_it}
            )
            records = older_records(
                {job.source: job.position for job in of_it},
                {job.source: job.end for job in of_it},
                {
                    job.source: -1
                    if young[job.source][0] < 0
                    else min(young[job.source][0], job.end)
                    for job in of_it
                },
            )
            if records:
                warnings.append(f"{copy.remote}: {age_finding(copy, key, limit_ms, records).text}")
    return warnings


def _copies(facts: ClusterFacts, gatherer: ClusterSurvey) -> list[CopyConfigs]:
    """Return the effective configs of each topic and its copy; for a missing copy, its future
    configs."""
    missing = {topic.remote for topic in facts.missing.create}
    remotes = {topic: gatherer.selector.remote(topic) for topic in facts.source_configs}
    on_target = gatherer.target_admin.list_topics()
    existing = [remote for remote in remotes.values() if remote in on_target]
    others = [topic for topic in on_target if topic not in existing][:_SAMPLED] if missing else []
    described = described_configs(gatherer.target_admin, [*existing, *others], missing_ok=True)
    defaults = topic_defaults(described)
    properties = config_property_filter(gatherer.config.originals)
    return [
        CopyConfigs(
            topic,
            remote,
            effective_configs(facts.source_configs[topic]),
            effective_configs(described[remote])
            if remote in described
            else {**defaults, **copied_configs(facts.source_configs[topic], properties)},
        )
        for topic, remote in remotes.items()
    ]
