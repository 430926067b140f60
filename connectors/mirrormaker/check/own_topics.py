"""The internal topics of a flow: those of the worker, heartbeats, checkpoints and offset syncs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from connect.config.worker import WorkerConfig
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.clients import Side
from connectors.mirror.config.heartbeat import HeartbeatConfig
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.replication_policy import offset_topics, replication_policy
from connectors.mirror.topics.clusters import internal_topics
from connectors.mirror.topics.create import COMPACTED
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.flow_plans import (
    CHECKPOINT,
    HEARTBEAT,
    mirrors,
    worker_topics,
)
from connectors.mirrormaker.mirror_flow import FlowPlan

__all__ = ["OwnTopic", "own_topics"]

_SYNCS_FACTOR = "offset-syncs.topic.replication.factor"
_CHECKPOINTS_FACTOR = "checkpoints.topic.replication.factor"


class OwnTopic(NamedTuple):
    """An internal topic. `key`: the property that sets its replication factor."""

    side: Side
    name: str
    partitions: int
    factor: int
    key: str
    configs: Mapping[str, str] = COMPACTED


def own_topics(
    plan: FlowPlan, worker: WorkerConfig, props: Mapping[str, str], source: SourceConfig
) -> Iterator[OwnTopic]:
    """Return the internal topics of a flow. `props`: the resolved properties of its source
    connector, which `source` was read from."""
    for family, topic in worker_topics(worker).items():
        key, configs = f"{family}.storage.replication.factor", {**topic.configs, **COMPACTED}
        yield OwnTopic(
            "target", topic.name, topic.partitions, topic.replication_factor, key, configs
        )
    heartbeats = HeartbeatConfig.from_properties(
        {**props, "name": HEARTBEAT, "connector.class": HEARTBEAT}
    )
    policy = replication_policy(props)
    factor = heartbeats.heartbeats_topic_replication_factor
    key = "heartbeats.topic.replication.factor"
    yield OwnTopic("target", policy.heartbeats_topic(), 1, factor, key)
    if not mirrors(plan):
        return
    if CHECKPOINT in plan.connectors:
        parsed = CHECKPOINT_CONFIG_DEF.keys[_CHECKPOINTS_FACTOR].parse(props)
        assert isinstance(parsed, int)
        name = policy.checkpoints_topic(plan.source)
        yield OwnTopic("target", name, 1, parsed, _CHECKPOINTS_FACTOR)
    side = offset_topics(source.originals).side
    for name, factor in internal_topics(source).items():
        yield OwnTopic(side, name, 1, factor, _SYNCS_FACTOR)
    if source.mirror_provenance_enabled:
        factor = source.offset_syncs_topic_replication_factor
        yield OwnTopic("target", PROVENANCE_TOPIC, 1, factor, _SYNCS_FACTOR)
