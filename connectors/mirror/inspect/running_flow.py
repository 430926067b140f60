"""Reads what a running flow copies, from its Connect group and its config topic.

The group's members are the flow's workers, ours or Java's. The config topic holds the partitions of
their tasks and the topics that they would start to copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from connect.clients.groups.describe_group import GroupPeer, group_members
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import ConfigError
from connect.protocol.messages import TopicPartition
from connect.storage.config_records import decode_record
from connect.storage.config_state import ClusterConfigState, ConfigStateBuilder
from connect.storage.instance_id import TargetState
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.inspect.cluster_queries import refuse_hidden
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.topics.clusters import topic_selector

__all__ = ["LiveFlow", "look_at_flow"]

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class LiveFlow:
    """A running flow. `assigned`: the partitions of its tasks. `takes`: whether it would start to
    copy a source topic. `paused`: the names of its connectors that are paused or stopped, and do
    nothing until they are resumed."""

    members: Sequence[GroupPeer]
    assigned: frozenset[TopicPartition]
    takes: Callable[[str], bool]
    paused: frozenset[str] = frozenset()

    def copies(self, key: TopicPartition) -> bool:
        """Whether a task copies this partition or would start to."""
        return bool(self.members) and (key in self.assigned or self.takes(key[0]))


def look_at_flow(flow: DedicatedFlow) -> LiveFlow:
    """Query the target cluster. Raises one of `connect.errors`."""
    members = group_members(flow.client("backfill-look"), flow.group, Deadline(_TIMEOUT_S))
    if not members:
        return LiveFlow((), frozenset(), lambda _: False)
    state = _configs(flow)
    name = flow.config.name
    if state is None or not state.contains(name):
        # The workers are starting. The properties of this process are the best guess of their
        # config.
        return LiveFlow(members, frozenset(), _takes(flow.config))
    if state.target_state(name) is TargetState.STOPPED:
        return LiveFlow((), frozenset(), lambda _: False)
    assigned = frozenset(
        key for config in state.raw_task_configs(name) for key in _assigned(config)
    )
    try:
        running = SourceConfig.from_properties(state.raw_connector_config(name) or {})
    except ConfigError:
        running = flow.config
    paused = frozenset(
        each for each in state.connectors() if state.target_state(each) is not TargetState.STARTED
    )
    return LiveFlow(members, assigned, _takes(running), paused)


def _takes(config: SourceConfig) -> Callable[[str], bool]:
    if not config.enabled:
        return lambda _: False
    selector = topic_selector(config)
    return lambda topic: selector.skip(topic) is None


def _assigned(task: object) -> list[TopicPartition]:
    text = task.get("task.assigned.partitions", "") if isinstance(task, dict) else ""
    found = []
    for element in text.split(","):
        topic, dash, number = element.strip().rpartition("-")
        if dash and number.isdigit():
            found.append((topic, int(number)))
    return found


def _configs(flow: DedicatedFlow) -> ClusterConfigState | None:
    """Return the configs of the flow's connectors and tasks; None if the config topic does not
    exist."""
    properties = flow.client("backfill-configs")
    with closing(Admin(properties)) as admin:
        if flow.config_topic not in admin.list_topics(_TIMEOUT_S):
            refuse_hidden(admin, [flow.config_topic])
            return None
    builder = ConfigStateBuilder()

    def take(record: LogRecord) -> None:
        builder.apply(record.offset, decode_record(record.key, record.value))

    log = TopicLog(flow.config_topic, properties, take)
    try:
        log.start(Deadline(_TIMEOUT_S))
    finally:
        log.stop(Deadline(1.0))
    builder.startup_complete()
    return builder.snapshot()
