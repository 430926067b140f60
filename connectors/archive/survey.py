"""Reads the source for an archive: its topics, and the offsets that are not archived yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.describe_log_dirs import partition_sizes
from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.config.java_regex import JavaRegex
from connect.errors import ConfigError, ConnectError
from connect.protocol.messages import TopicPartition
from connectors.archive.errors import TopicChanged
from connectors.archive.ledger import ArchivedTopic, Ledger
from connectors.mirror.backfill.cluster_facts import described_configs
from connectors.mirror.backfill.scheduler import PartitionJob
from connectors.mirror.config import clients as client_configs
from connectors.mirror.filters import config_property_filter
from connectors.mirror.inspect.cluster_queries import REACH_S, asking
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.inspect.source_topics import NamedTopics, refuse_hidden_sources
from connectors.mirror.topics.clusters import topic_selector
from connectors.mirror.topics.create import copied_configs

__all__ = ["ArchivePlan", "SourceSurvey", "check_log"]

_TIMEOUT_S = 60.0
_UNKNOWN_BYTES = 512.0
"""Bytes per offset assumed if the brokers do not report log sizes."""

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic ID that a broker without topic IDs (before 2.8) gives."""


@dataclass(slots=True)
class ArchivePlan:
    """The offsets to archive now, up to the ends of the logs."""

    topics: dict[str, ArchivedTopic] = field(default_factory=dict)
    jobs: list[PartitionJob] = field(default_factory=list)


class SourceSurvey:
    """Looks at the source cluster. The owner calls `close`. For one thread."""

    def __init__(self, flow: DedicatedFlow, pattern: JavaRegex | None) -> None:
        """`pattern`: for whole names of topics; None: the flow's topics."""
        self._flow = flow
        self._pattern = pattern
        self.consumer = client_configs.client_properties(
            flow.properties, "source", "consumer", "archive-source"
        )
        self._admin = Admin(client_configs.source_admin(flow.properties))
        self._link = ClusterLink(wire_settings(self.consumer), lambda: None, name="archive")

    def close(self) -> None:
        self._link.close()
        self._admin.close()

    def cluster_id(self) -> str:
        with asking("source", self.consumer):
            return self._admin.cluster_id(REACH_S)

    def topics(self) -> dict[str, int]:
        """Return the topics to archive, and how many partitions they have. Raises `ConfigError` if
        there are none."""
        selector = topic_selector(self._flow.config)
        if self._pattern is not None:
            named = NamedTopics(self._pattern)
            selector = replace(selector, topics=named, replicate_heartbeats=False)
        on_source = self._admin.list_topics(_TIMEOUT_S)
        refuse_hidden_sources(self._admin, selector, on_source)
        selection = selector.select(on_source)
        if not selection.copied:
            asked = "the flow's topic filter" if self._pattern is None else "--topics"
            raise ConfigError(f"No topic on the source that {asked} matches", key="--topics")
        return dict(selection.copied)

    def plan(self, ledger: Ledger) -> ArchivePlan:
        """Return what the ledger lacks. Raises `TopicChanged`, and the errors of the requests."""
        counts = self.topics()
        described = self._admin.describe_topics(list(counts), _TIMEOUT_S)
        configs = described_configs(self._admin, list(described), missing_ok=True)
        wanted = config_property_filter(self._flow.config.originals)
        plan = ArchivePlan()
        for topic, found in described.items():
            own = copied_configs(configs.get(topic, ()), wanted)
            plan.topics[topic] = ArchivedTopic(found.topic_id, len(found.partitions), own)
            _check_id(topic, found.topic_id, ledger)
        keys = {
            (topic, number)
            for topic, each in plan.topics.items()
            for number in range(each.partitions)
        }
        self._link.watch_topics(set(plan.topics))
        starts = listed(self._link, keys, EARLIEST, 0)
        ends = listed(self._link, keys, LATEST, 1)
        sizes = self._sizes(keys)
        for key in sorted(keys):
            begin = check_log(key, starts[key], ends[key], ledger)
            offsets = ends[key] - starts[key]
            weight = sizes.get(key, 0) / offsets if offsets > 0 and sizes.get(key) else None
            end = max(begin, ends[key])
            job = PartitionJob(key, key, begin, end, begin, max(1.0, weight or _UNKNOWN_BYTES))
            plan.jobs.append(job)
        return plan

    def _sizes(self, keys: set[TopicPartition]) -> dict[TopicPartition, int]:
        try:
            return partition_sizes(self._link, keys, Deadline(_TIMEOUT_S))
        except ConnectError:
            return {}  # Only for the estimates of the progress.


def _check_id(topic: str, found: str, ledger: Ledger) -> None:
    before = ledger.topics.get(topic)
    if before is not None and _NO_ID not in (before.id, found) and before.id != found:
        raise TopicChanged(
            f"Topic {topic} was re-created: its ID was {before.id} when it was archived, and is "
            f"{found} now. Archive it to another directory, or leave it out with --topics"
        )


def check_log(key: TopicPartition, start: int, end: int, ledger: Ledger) -> int:
    """Return the first offset to archive. `start`, `end`: of the source's log. Raises
    `TopicChanged` if the log was truncated."""
    archived = ledger.end(key)
    if archived is None:
        return min(start, end)
    if archived > end:
        raise TopicChanged(
            f"{key[0]}-{key[1]}: offsets up to {archived - 1} are archived, but the source log "
            f"ends at {end}: the log was truncated, or the topic was re-created. Archive it to "
            "another directory, or leave it out with --topics"
        )
    return archived
