"""Gathers what an audit needs before it reads records: topics, log offsets, stored offsets and the
offset map.

The order of the requests matters while the mirror runs: stored offsets first, then the target's end
offsets, then the source's. Then every record before a stored offset lies before the target's end,
and every record on the target lies before the source's end.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Literal

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.cluster.partition_reader import PartitionReader
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigEntry
from connect.errors import ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.audit.auditor import Auditor, AuditSetup
from connectors.mirror.audit.plan import (
    DEFAULT_RANGE_BYTES,
    AuditRange,
    PartitionFacts,
    began_at,
    plan_ranges,
)
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.filters import DefaultTopicFilter
from connectors.mirror.inspect.cluster_queries import REACH_S, asking, refuse_hidden
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.inspect.source_topics import topic_pattern
from connectors.mirror.inspect.stored_progress import map_pages, stored_positions
from connectors.mirror.offsets.offset_map_pages import MapPage
from connectors.mirror.replication_policy import replication_policy
from connectors.mirror.topics.clusters import topic_selector

__all__ = ["AuditPlan", "FlowToAudit", "make_plan"]

_LOG = logging.getLogger(__name__)

MEASURED_FROM = 100_000
"""Sizes of partitions with fewer offsets than this are not measured."""

_SAMPLE_BYTES = 256 * 1024
_STALL_S = 10.0


@dataclass(frozen=True, slots=True)
class FlowToAudit:
    """A flow as its source connector sees it. `properties`: the resolved connector properties.
    `offsets_topic`: the topic of its source offsets, read with `offsets_client`; None if
    unknown."""

    properties: Mapping[str, str] = field(repr=False)
    offsets_topic: str | None = None
    offsets_client: Mapping[str, str] = field(default_factory=dict, repr=False)
    producer: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Producer properties of the mirror's tasks, for repairs."""


@dataclass(slots=True)
class AuditPlan:
    """The partitions to read, and `pages`, their offset map. `absent`: source partitions without a
    copy. `transformed`: topics that are left out, because their copies differ. Heartbeats count as
    absent only if the mirror has copied some, because it discovers their topic late."""

    setup: AuditSetup
    facts: list[PartitionFacts] = field(default_factory=list)
    ranges: list[AuditRange] = field(default_factory=list)
    absent: dict[TopicPartition, str] = field(default_factory=dict)
    pages: dict[TopicPartition, list[MapPage]] = field(default_factory=dict)
    transformed: list[str] = field(default_factory=list)


def make_plan(
    flow: FlowToAudit,
    topics: str | None,
    range_bytes: int = DEFAULT_RANGE_BYTES,
    *,
    from_begin: bool = False,
) -> AuditPlan:
    """Gather the facts from both clusters.

    `topics`: a Java pattern for whole topic names; only matching topics of the flow are audited.
    `from_begin`: skip records from before the start of the flow (as the map shows it). Raises one
    of `connect.errors`.
    """
    return _Planner(flow, topics, range_bytes, from_begin).plan()


class _Planner:
    def __init__(
        self, flow: FlowToAudit, topics: str | None, range_bytes: int, from_begin: bool
    ) -> None:
        self._flow = flow
        self._from_begin = from_begin
        self._range_bytes = range_bytes
        self._config = SourceConfig.from_properties(flow.properties)
        self._pattern = topic_pattern(topics or ".*")
        consumer = client_configs.client_properties(
            flow.properties, "source", "consumer", "audit-source"
        )
        target = client_configs.client_properties(
            flow.properties, "target", "consumer", "audit-target"
        )
        committed = consumer.get("isolation.level") == "read_committed"
        self._plan = AuditPlan(AuditSetup(consumer, target, committed))

    def plan(self) -> AuditPlan:
        with (
            closing(Admin(client_configs.source_admin(self._flow.properties))) as source,
            closing(Admin(client_configs.target_admin(self._flow.properties))) as target,
        ):
            self._look(source, target)
        return self._plan

    def _look(self, source: Admin, target: Admin) -> None:
        with asking("source", self._plan.setup.source):
            on_source = source.list_topics(REACH_S)
        with asking("target", self._plan.setup.target):
            on_target = target.list_topics(REACH_S)
        selector = topic_selector(self._config)
        if isinstance(selector.topics, DefaultTopicFilter):
            named = filter(self._pattern.fullmatch, selector.topics.include.literals())
            refuse_hidden(source, set(named) - on_source.keys())
        topics = [
            topic for topic in selector.select(on_source).copied if self._pattern.fullmatch(topic)
        ]
        self._plan.transformed = [topic for topic in topics if selector.changes_records(topic)]
        left_out = set(self._plan.transformed)
        remotes = {topic: selector.remote(topic) for topic in topics if topic not in left_out}
        read = {*remotes.values(), *filter(None, [self._flow.offsets_topic])}
        refuse_hidden(target, read - on_target.keys())
        positions = self._positions(on_target)
        policy = replication_policy(self._config.originals)
        keys: dict[TopicPartition, TopicPartition] = {}
        for topic, remote in remotes.items():
            for partition in range(on_source[topic]):
                if partition < on_target.get(remote, 0):
                    keys[topic, partition] = (remote, partition)
                elif (topic, partition) in positions or not policy.is_heartbeats_topic(topic):
                    self._plan.absent[topic, partition] = f"{remote}-{partition} does not exist"
        pages = self._pages(on_source, on_target, remotes)
        copied = {topic for topic, _ in keys}
        our_configs = source.describe_topic_configs(list(copied))
        their_configs = target.describe_topic_configs([remotes[topic] for topic in copied])
        setup = self._plan.setup
        targets = _offsets(setup.target, keys.values(), 1)
        sources = _offsets(setup.source, keys, 1 if setup.read_committed else 0)
        for key, remote_key in keys.items():
            ours, theirs = our_configs[key[0]], their_configs[remote_key[0]]
            facts = PartitionFacts(
                key,
                remote_key,
                *sources[key],
                *targets[remote_key],
                positions.get(key),
                "compact" in _value(ours, "cleanup.policy") + _value(theirs, "cleanup.policy"),
                _value(theirs, "message.timestamp.type") != "LogAppendTime",
                began=began_at(pages.get(key, ())),
                from_begin=self._from_begin,
            )
            self._plan.facts.append(facts)
        self._plan.pages = pages
        self._plan.facts = _with_sizes(setup.source, self._plan.facts)
        for facts in self._plan.facts:
            found = pages.get(facts.source, ())
            self._plan.ranges += plan_ranges(facts, found, self._range_bytes)

    def _positions(self, on_target: Collection[str]) -> dict[TopicPartition, int]:
        """Return the mirror's stored offset of each partition."""
        topic = self._flow.offsets_topic
        if topic is None or topic not in on_target:
            return {}
        return stored_positions(self._config, topic, self._flow.offsets_client)

    def _pages(
        self, on_source: Collection[str], on_target: Collection[str], wanted: Collection[str]
    ) -> dict[TopicPartition, list[MapPage]]:
        """Return the offset map's pages of these topics; empty if there is no map. They only show
        where to cut."""
        pages = map_pages(self._config, self._flow.properties, on_source, on_target, wanted)
        return {key: list(found.values()) for key, found in pages.items()}


def _value(entries: Collection[ConfigEntry], name: str) -> str:
    return next((entry.value or "" for entry in entries if entry.name == name), "")


def _offsets(
    properties: Mapping[str, str], keys: Collection[TopicPartition], isolation: Literal[0, 1]
) -> dict[TopicPartition, tuple[int, int]]:
    """Return the first offset and the end offset (exclusive) of each partition that consumers can
    read."""
    if not keys:
        return {}
    with Auditor.link(properties, {topic for topic, _ in keys}) as linked:
        ends = listed(linked.link, keys, LATEST, isolation)
        starts = listed(linked.link, keys, EARLIEST, 0)
    return {key: (min(starts[key], ends[key]), ends[key]) for key in keys}


def _with_sizes(
    source: Mapping[str, str], partitions: Collection[PartitionFacts]
) -> list[PartitionFacts]:
    """Return the facts with `offset_bytes` where a measurement is worthwhile and possible, so that
    ranges can be cut by bytes. Fetches a little from the middle of the log. `source`: Java consumer
    properties."""
    long = {each.source for each in partitions if _length(each) >= MEASURED_FROM}
    if not long:
        return list(partitions)
    with Auditor.link(source, {topic for topic, _ in long}) as linked:
        return [
            _measured(linked.link, each) if each.source in long else each for each in partitions
        ]


def _measured(link: ClusterLink, facts: PartitionFacts) -> PartitionFacts:
    middle = (facts.source_start + facts.source_end) // 2
    reader = PartitionReader(
        link,
        facts.source,
        middle,
        facts.source_end,
        fetch_bytes=_SAMPLE_BYTES,
        stall_s=_STALL_S,
    )
    try:
        headers = next(iter(reader)).headers
    except ConnectError as error:  # The measurement is only an estimate, so an error is not fatal.
        _LOG.info(
            "Cannot measure bytes per offset of %s-%d, ranges are cut by offsets instead: %s",
            *facts.source,
            error,
        )
        return facts
    finally:
        reader.close()
    first = headers[0].base_offset if headers[0].magic == 2 else middle
    offsets = headers[-1].next_offset - first
    return replace(facts, offset_bytes=sum(each.size for each in headers) / max(1, offsets))


def _length(facts: PartitionFacts) -> int:
    return facts.source_end - facts.source_start
