"""The permissions that the flows of an mm2.properties file need on each of their clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from connect.config.worker import WorkerConfig
from connect.runtime.distributed.group_config import DistributedConfig
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HeartbeatConfig
from connectors.mirror.config.source import SOURCE_CONFIG_DEF, SourceConfig
from connectors.mirror.inspect.given_offsets import DEFAULT_OFFSETS_TOPIC
from connectors.mirror.replication_policy import offset_topics, replication_policy
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import (
    CHECKPOINT,
    HEARTBEAT,
    SOURCE,
    mirrors,
    plan_flows,
    resolved_source_config,
    worker_topics,
)
from connectors.mirrormaker.mirror_flow import FlowPlan
from connectors.mirrormaker.required_permissions import (
    ON_REQUEST,
    Feature,
    FlowNames,
    Pattern,
    RequiredPermission,
    by_cluster,
    required_permissions,
)

__all__ = [
    "EXACTLY_ONCE",
    "checkpoint_features",
    "flow_features",
    "flow_names",
    "heartbeat_features",
    "mirror_names",
    "name_pattern",
    "permissions_by_cluster",
    "source_features",
]

EXACTLY_ONCE = "exactly.once.source.support"
"""A property of the worker."""

_LITERAL = re.compile(r"[\w.-]+")
_QUANTIFIERS = "?*{"


def permissions_by_cluster(
    config: MirrorMakerConfig,
    clusters: Sequence[str] | None = None,
    more: Collection[Feature] = (),
) -> dict[str, list[RequiredPermission]]:
    """Return what the flows into `clusters` (None: all) need, by the alias of the cluster that must
    grant it; with `more`, also what these features `ON_REQUEST` need. Raises `ConfigError`."""
    wanted: list[RequiredPermission] = []
    for plan in plan_flows(config, clusters):
        features = flow_features(config, plan)
        if mirrors(plan):
            features |= ON_REQUEST & set(more)
        wanted += required_permissions(flow_names(config, plan), features)
    return by_cluster(wanted)


def flow_features(config: MirrorMakerConfig, plan: FlowPlan) -> set[Feature]:
    """Return the features that the flow's properties switch on."""
    props = resolved_source_config(config, plan)
    worker = config.worker_config(plan.source, plan.target)
    found = {Feature.WORKER} | heartbeat_features(props)
    if worker.get(EXACTLY_ONCE, "").strip().lower() == "enabled":
        found.add(Feature.EXACTLY_ONCE)
    if mirrors(plan):
        found |= source_features(props)
        if CHECKPOINT in plan.connectors:
            found |= checkpoint_features(props)
    return found


def source_features(props: Mapping[str, str]) -> set[Feature]:
    """Return the features that a MirrorSourceConnector's properties switch on."""
    source = _source_config(props)
    syncs_configs = source.sync_topic_configs_interval_s is not None
    beats = source.heartbeats_replication_enabled
    wanted = {
        Feature.COPYING: True,
        Feature.NEW_PARTITIONS: source.refresh_topics_interval_s is not None,
        Feature.OFFSET_MAP: source.emit_offset_syncs_enabled and source.mirror_offset_map_enabled,
        Feature.PROVENANCE: source.mirror_provenance_enabled,
        Feature.CONFIG_SYNC: syncs_configs,
        Feature.HEARTBEAT_CONFIG_SYNC: syncs_configs and beats,
        Feature.ACL_SYNC: source.sync_topic_acls_interval_s is not None,
        Feature.COPIED_HEARTBEATS: beats,
        Feature.QUARANTINE: source.mirror_quarantine_topic is not None,
    }
    return {feature for feature, on in wanted.items() if on}


def checkpoint_features(props: Mapping[str, str]) -> set[Feature]:
    """Return the features that a MirrorCheckpointConnector's properties switch on."""
    if CHECKPOINT_CONFIG_DEF.keys["sync.group.offsets.enabled"].parse(props) is True:
        return {Feature.GROUP_OFFSETS, Feature.GROUP_SYNC}
    return {Feature.GROUP_OFFSETS}


def heartbeat_features(props: Mapping[str, str]) -> set[Feature]:
    """Return the features that a MirrorHeartbeatConnector's properties switch on."""
    named = {**props, "name": HEARTBEAT, "connector.class": HEARTBEAT}
    emitted = HeartbeatConfig.from_properties(named).emit_heartbeats_interval_s
    return set() if emitted is None else {Feature.HEARTBEATS}


def flow_names(config: MirrorMakerConfig, plan: FlowPlan) -> FlowNames:
    """Return the names of the flow's resources."""
    worker = WorkerConfig.from_properties(config.worker_config(plan.source, plan.target))
    return replace(
        mirror_names(resolved_source_config(config, plan), plan.source, plan.target),
        worker_group=DistributedConfig.from_properties(worker.originals).group_id,
        worker_topics=tuple(topic.name for topic in worker_topics(worker).values()),
    )


def mirror_names(props: Mapping[str, str], source: str, target: str) -> FlowNames:
    """Return the names of what the mirror's connectors use, without those of their worker.
    `source`, `target`: the clusters' aliases.

    Regular expressions become the beginnings that their matches have in common: an ACL knows no
    other patterns.
    """
    config = _source_config(props)
    policy, own = replication_policy(props), offset_topics(props)

    def copy_of(topic: Pattern) -> Pattern:
        name = "" if topic.name == "*" else topic.name
        remote = policy.remote_topic(source, name)
        return Pattern(remote, topic.prefixed or not name) if remote else Pattern("*")

    topics = _patterns(SOURCE_CONFIG_DEF.keys["topics"].parse, props)
    return FlowNames(
        source=source,
        target=target,
        topics=topics,
        copies=tuple(map(copy_of, topics)),
        groups=_patterns(CHECKPOINT_CONFIG_DEF.keys["groups"].parse, props),
        offset_syncs=own.syncs if config.emit_offset_syncs_enabled else "",
        offset_map=own.map,
        provenance=PROVENANCE_TOPIC,
        offsets_side=own.side,
        checkpoints=policy.checkpoints_topic(source),
        heartbeats=policy.heartbeats_topic(),
        copied_heartbeats=policy.remote_topic(source, policy.heartbeats_topic()),
        quarantine=config.mirror_quarantine_topic or "",
        others_offsets=DEFAULT_OFFSETS_TOPIC,
    )


def _source_config(props: Mapping[str, str]) -> SourceConfig:
    return SourceConfig.from_properties({**props, "name": SOURCE, "connector.class": SOURCE})


def _patterns(
    parse: Callable[[Mapping[str, str]], object], props: Mapping[str, str]
) -> tuple[Pattern, ...]:
    elements = parse(props)
    assert isinstance(elements, tuple)
    return tuple(dict.fromkeys(name_pattern(element) for element in elements))


def name_pattern(expression: str) -> Pattern:
    """Return the resource pattern for the names that a regular expression matches: one name, the
    beginning that all have in common, or every name (`*`).

    A dot within a name counts as a dot, because topics are written so.
    """
    if _LITERAL.fullmatch(expression):
        return Pattern(expression)
    begin, at = "", 0
    while at < len(expression):
        char = expression[at]
        escaped = char == "\\" and expression[at + 1 : at + 2] in (".", "-", "_")
        if escaped:
            at += 1
            char = expression[at]
        elif not _LITERAL.fullmatch(char):
            break
        if expression[at + 1 : at + 2] and expression[at + 1] in _QUANTIFIERS:
            break
        begin += char
        at += 1
    if at == len(expression):
        return Pattern(begin)
    return Pattern(begin, prefixed=True) if begin and "|" not in expression else Pattern("*")
