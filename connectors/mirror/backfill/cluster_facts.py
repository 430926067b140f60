"""Reads both clusters for a backfill: the requested partitions, their offsets and their sizes.

It writes nothing, but with `create` it creates missing topics.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Literal

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.describe_log_dirs import partition_sizes
from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.cluster.partition_reader import PartitionReader
from connect.clients.config.properties import wire_settings
from connect.clients.errors import not_authorized
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigEntry
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import ConfigError, ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.backfill.request import BackfillRequest
from connectors.mirror.backfill.start_position import PartitionLogs, known_of
from connectors.mirror.compare.batch_runs import wire_runs
from connectors.mirror.compare.target_tail import TailReader
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.filters import config_property_filter
from connectors.mirror.inspect.cluster_queries import REACH_S, asking, refuse_hidden
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.inspect.source_topics import NamedTopics, refuse_hidden_sources
from connectors.mirror.inspect.stored_progress import map_pages, stored_positions
from connectors.mirror.offsets.offset_map_pages import MapPage
from connectors.mirror.retention.deadline import LogState, RetentionLimits, limits_of
from connectors.mirror.retention.timestamp_search import next_stamps
from connectors.mirror.topics.clusters import internal_topics, topic_selector
from connectors.mirror.topics.create import apply_plan, creation_configs, ensure_compacted_topic
from connectors.mirror.topics.forwarding_admin import forwarding_admin
from connectors.mirror.topics.selection import Selection, TopicPlan, TopicSelector, plan_topics

__all__ = ["ClusterFacts", "ClusterSurvey", "create_own_topics", "described_configs"]

_LOG = logging.getLogger(__name__)


_TIMEOUT_S = 60.0
_GROWTH_S = 3600.0
"""The growth rate of a log is measured over this time."""
_UNKNOWN_BYTES = 512.0
"""Bytes per offset assumed if the brokers do not report log sizes. Measurements during the copy
replace it."""


@dataclass(slots=True)
class ClusterFacts:
    """The facts. `starts`: the requested start offsets; None: the flow's stored offset. `ends`: the
    end offsets (exclusive). `as_one`: topics that cannot be compared record by record with their
    copies, because either topic is compacted."""

    logs: list[PartitionLogs] = field(default_factory=list)
    starts: dict[TopicPartition, int | None] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    limits: dict[str, RetentionLimits] = field(default_factory=dict)
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    growth: dict[TopicPartition, float] = field(default_factory=dict)
    trimmed: dict[TopicPartition, float] = field(default_factory=dict)
    """Offsets per second by which the log start moved between two measurements."""
    seen_ms: int = 0
    compacted: frozenset[str] = frozenset()
    append_times: frozenset[str] = frozenset()
    """Topics whose copies do not keep the source timestamps."""
    missing: TopicPlan = field(default_factory=TopicPlan)
    source_configs: Mapping[str, list[ConfigEntry]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def offset_bytes(self, logs: PartitionLogs) -> float:
        """Return the bytes per offset of this partition on its broker's disk."""
        size, offsets = self.sizes.get(logs.source), logs.source_end - logs.source_start
        return max(1.0, size / offsets) if size and offsets > 0 else _UNKNOWN_BYTES


class ClusterSurvey:
    """Gathers `ClusterFacts`. The owner calls `close`."""

    def __init__(self, flow: DedicatedFlow, wish: BackfillRequest) -> None:
        self._flow = flow
        self._wish = wish
        self.config = flow.config
        self.consumer = client_configs.client_properties(
            flow.properties, "source", "consumer", "backfill-source"
        )
        self.target_consumer = client_configs.client_properties(
            flow.properties, "target", "consumer", "backfill-target"
        )
        self.read_committed = self.consumer.get("isolation.level") == "read_committed"
        self.source_admin = forwarding_admin(
            flow.properties, client_configs.source_admin(flow.properties)
        )
        self.target_admin = forwarding_admin(
            flow.properties, client_configs.target_admin(flow.properties)
        )
        self.source = ClusterLink(wire_settings(self.consumer), lambda: None, name="backfill")
        self.target = ClusterLink(
            wire_settings(self.target_consumer), lambda: None, name="backfill"
        )
        self.selector: TopicSelector = self._selector()

    @property
    def tails(self) -> TailReader:
        """Return the lookup that finds the source's next records on the target."""
        return TailReader(self.source, self.target, self.read_committed)

    def has_records(self, key: TopicPartition, first: int, end: int) -> bool:
        """Whether the source has a record between these offsets (`end` is exclusive)."""
        isolation: Literal[0, 1] = 1 if self.read_committed else 0
        with closing(PartitionReader(self.source, key, first, end, isolation=isolation)) as reader:
            runs = wire_runs(reader, first, end, committed=self.read_committed)
            return any(batch.columns().offsets for batch in chain.from_iterable(runs))

    def close(self) -> None:
        self.source.close()
        self.target.close()
        self.source_admin.close()
        self.target_admin.close()

    def _selector(self) -> TopicSelector:
        with asking("source", self.consumer):
            ours = self.source_admin.cluster_id(REACH_S)
        with asking("target", self.target_consumer):
            theirs = self.target_admin.cluster_id(REACH_S)
        selector = topic_selector(self.config, same_cluster=ours == theirs)
        if self._wish.topics is None:
            return selector
        return replace(selector, topics=NamedTopics(self._wish.topics), replicate_heartbeats=False)

    def gather(self, *, create: bool) -> ClusterFacts:
        """Gather the facts. `create`: create missing topics on the target and wait until they
        exist. Raises one of `connect.errors`."""
        facts = ClusterFacts()
        on_source = self.source_admin.list_topics(_TIMEOUT_S)
        refuse_hidden_sources(self.source_admin, self.selector, on_source)
        selection = self.selector.select(on_source)
        if not selection.copied:
            asked = "the flow's topic filter" if self._wish.topics is None else "--topics"
            raise ConfigError(
                f"No topic on the source that {asked} matches; skipped: "
                + (
                    ", ".join(f"{each.topic} ({each.detail})" for each in selection.skipped[:5])
                    or "none"
                ),
                key="--topics",
            )
        changed = [topic for topic in selection.copied if self.selector.changes_records(topic)]
        if changed:
            raise ConfigError(
                f"records of topic {changed[0]} are transformed, but a backfill copies batches "
                "as bytes: let the flow copy it, or leave it out with --topics",
                key="--topics",
            )
        on_target = self.target_admin.list_topics(_TIMEOUT_S)
        facts.missing = plan_topics(selection.copied, on_target, self.selector)
        if create:
            self._create(facts.missing)
            side = client_configs.offset_syncs_side(self.config.originals)
            create_own_topics(
                self.source_admin if side == "source" else self.target_admin, self.config
            )
            on_target = self.target_admin.list_topics(_TIMEOUT_S)
        self._describe(facts, selection, on_target)
        self._place(facts, selection, on_target, on_source)
        facts.seen_ms = SYSTEM_CLOCK.now_ms()
        self._weigh(facts)
        return facts

    # Topics.

    def _create(self, plan: TopicPlan) -> None:
        if not plan:
            return
        timeout = self.config.admin_timeout_ms / 1000
        properties = config_property_filter(self.config.originals)
        configs = creation_configs(self.source_admin, plan.create, properties, timeout)
        threads = OneShotThreads("backfill-topics")
        try:
            failures = apply_plan(
                plan,
                self.target_admin,
                configs,
                self.config.replication_factor,
                timeout,
                threads,
            )
        finally:
            threads.stop()
        if failures:
            raise ConnectError(f"Topic {failures[0].remote} is not ready: {failures[0]}")

    def _describe(
        self, facts: ClusterFacts, selection: Selection, on_target: Collection[str]
    ) -> None:
        topics = list(selection.copied)
        remotes = {topic: self.selector.remote(topic) for topic in topics}
        facts.source_configs = described_configs(self.source_admin, topics)
        there = [remote for remote in remotes.values() if remote in on_target]
        theirs = described_configs(self.target_admin, there)
        compacted, append_times = set(), set()
        for topic, remote in remotes.items():
            ours = {e.name: e.value or "" for e in facts.source_configs[topic]}
            other = {e.name: e.value or "" for e in theirs.get(remote, ())}
            facts.limits[topic] = limits_of(ours)
            if "compact" in ours.get("cleanup.policy", "") + other.get("cleanup.policy", ""):
                compacted.add(topic)
            if other.get("message.timestamp.type") == "LogAppendTime":
                append_times.add(topic)
        facts.compacted, facts.append_times = frozenset(compacted), frozenset(append_times)

    # Partitions.

    def _place(
        self,
        facts: ClusterFacts,
        selection: Selection,
        on_target: Mapping[str, int],
        on_source: Collection[str],
    ) -> None:
        keys = {
            (topic, number): (self.selector.remote(topic), number)
            for topic, count in selection.copied.items()
            for number in range(count)
            if self._wish.partitions is None or number in self._wish.partitions
        }
        there = {
            key: remote for key, remote in keys.items() if remote[1] < on_target.get(remote[0], 0)
        }
        # The same order as in an audit: stored offsets first, then the target's end offsets, then
        # the source's.
        flow, offsets_topic = self._flow, self._flow.offsets_topic.name
        stored: dict[TopicPartition, int] = {}
        refuse_hidden(self.target_admin, {offsets_topic} - on_target.keys())
        if offsets_topic in on_target:
            client = flow.client("backfill-offsets")
            stored = stored_positions(self.config, offsets_topic, client)
        pages: dict[TopicPartition, dict[int, MapPage]] = {}
        if self.config.mirror_offset_map_enabled:
            wanted = selection.copied
            pages = map_pages(self.config, flow.properties, on_source, on_target, wanted)
        self.source.watch_topics(set(selection.copied))
        self.target.watch_topics({remote for remote, _ in there.values()})
        isolation: Literal[0, 1] = 1 if self.read_committed else 0
        ends = listed(self.target, set(there.values()), LATEST, 1)
        starts = listed(self.target, set(there.values()), EARLIEST, 0)
        our_ends = listed(self.source, set(keys), LATEST, isolation)
        our_starts = listed(self.source, set(keys), EARLIEST, 0)
        since = self._offsets_at(keys, self._wish.since_ms)
        until = self._offsets_at(keys, self._wish.until_ms)
        for key, remote in keys.items():
            logs = PartitionLogs(
                key,
                remote,
                min(our_starts[key], our_ends[key]),
                our_ends[key],
                starts.get(remote, 0),
                ends.get(remote, 0),
                stored.get(key),
                known_of(pages.get(key, {}).values()),
            )
            facts.logs.append(logs)
            facts.starts[key] = self._start(logs, since)
            facts.ends[key] = self._end(logs, until)

    def _start(self, logs: PartitionLogs, since: Mapping[TopicPartition, int]) -> int | None:
        if self._wish.since_ms is not None:
            found = since[logs.source]
            return logs.source_end if found < 0 else found
        return self._wish.first

    def _end(self, logs: PartitionLogs, until: Mapping[TopicPartition, int]) -> int:
        end = logs.source_end
        if self._wish.until_ms is not None and until[logs.source] >= 0:
            end = min(end, until[logs.source])
        if self._wish.last is not None:
            end = min(end, self._wish.last)
        return end

    def _offsets_at(
        self, keys: Collection[TopicPartition], at_ms: int | None
    ) -> dict[TopicPartition, int]:
        return {} if at_ms is None else listed(self.source, keys, at_ms, 0)

    # Order of copying.

    def _weigh(self, facts: ClusterFacts) -> None:
        keys = {logs.source for logs in facts.logs}
        try:
            facts.sizes = partition_sizes(self.source, keys, Deadline(_TIMEOUT_S))
        except ConnectError as error:
            facts.warnings.append(
                f"log sizes are unknown, so the first estimate of the bytes left is rough: {error}"
            )
        by_size = {
            logs.source
            for logs in facts.logs
            if facts.limits[logs.source[0]].retention_bytes is not None
        }
        if not by_size:
            return
        before = SYSTEM_CLOCK.now_ms() - round(_GROWTH_S * 1000)
        found = listed(self.source, by_size, before, 0)
        for logs in facts.logs:
            if (at := found.get(logs.source, -1)) >= 0:
                new = logs.source_end - at
                facts.growth[logs.source] = new * facts.offset_bytes(logs) / _GROWTH_S

    def states(
        self, facts: ClusterFacts, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogState]:
        """Return the facts that decide the order of copying, for each partition to be copied from
        `positions` on."""
        now_ms = SYSTEM_CLOCK.now_ms()
        by_age = {
            logs.source: positions[logs.source]
            for logs in facts.logs
            if facts.limits[logs.source[0]].retention_ms is not None
            and positions[logs.source] < facts.ends[logs.source]
        }
        ask = partial(self.source_admin.records_at, timeout=_TIMEOUT_S)
        stamps = next_stamps(ask, by_age, now_ms)
        return {
            logs.source: LogState(
                logs.source_start,
                logs.source_end,
                positions[logs.source],
                now_ms,
                stamps.get(logs.source),
                facts.sizes.get(logs.source, 0),
                facts.growth.get(logs.source, 0.0),
                facts.trimmed.get(logs.source, 0.0),
            )
            for logs in facts.logs
        }

    def looked_again(self, facts: ClusterFacts) -> ClusterFacts:
        """Return the same facts with the source's current log start offsets, and the rate at which
        they move."""
        starts = listed(self.source, {logs.source for logs in facts.logs}, EARLIEST, 0)
        now_ms = SYSTEM_CLOCK.now_ms()
        seconds = max(1e-3, (now_ms - facts.seen_ms) / 1000)
        for index, logs in enumerate(facts.logs):
            start = min(starts[logs.source], logs.source_end)
            facts.trimmed[logs.source] = max(0, start - logs.source_start) / seconds
            facts.logs[index] = replace(logs, source_start=start)
        facts.seen_ms = now_ms
        return facts


def create_own_topics(admin: Admin, config: SourceConfig) -> None:
    """Create the topics of offset syncs and offset map, if they are missing. `admin`: of their
    cluster."""
    for name, factor in internal_topics(config).items():
        ensure_compacted_topic(admin, name, factor, config.admin_timeout_ms / 1000)


def described_configs(
    admin: Admin, topics: Sequence[str], *, missing_ok: bool = False
) -> dict[str, list[ConfigEntry]]:
    """Return the configs of these topics; empty for a topic that the user may not describe.
    `missing_ok`: leave out topics that do not exist."""
    try:
        return admin.describe_topic_configs(topics, missing_ok=missing_ok)
    except ConnectError as error:
        if not not_authorized(error):
            raise
        if len(topics) == 1:
            _LOG.warning("%s", error)
            return {topics[0]: []}
    described: dict[str, list[ConfigEntry]] = {}
    for topic in topics:
        described |= described_configs(admin, [topic], missing_ok=missing_ok)
    return described
