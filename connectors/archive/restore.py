"""Restores an archive as the history of a flow: topics, offset map and stored offsets are those
that a backfill of the flow would write, so audits, the translation of groups and the live flow know
them. Only the records come from the archive, not from the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import DataFrame, SparkSession

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.config.properties import wire_settings
from connect.clients.librdkafka.admin import Admin
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK
from connect.config.java_regex import JavaRegex
from connect.errors import ConfigError, ConnectError, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.archive.errors import ArchiveRefused
from connectors.archive.ledger import ArchivedRange, ArchivedTopic
from connectors.archive.place import OffsetRange
from connectors.archive.restorer import RESULT, TargetSetup, piece_restorer
from connectors.archive.rows import READ_COLUMNS
from connectors.archive.store import ArchiveStore
from connectors.archive.tails import ArchiveTails
from connectors.mirror.backfill.cluster_facts import (
    ClusterFacts,
    create_own_topics,
    described_configs,
)
from connectors.mirror.backfill.engines import PieceEngine, PieceOutcome
from connectors.mirror.backfill.scheduler import Chunk
from connectors.mirror.backfill.start_position import PartitionLogs, known_of
from connectors.mirror.config import clients as client_configs
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.inspect.cluster_queries import REACH_S, asking
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.inspect.source_topics import NamedTopics
from connectors.mirror.inspect.stored_progress import map_pages, stored_positions
from connectors.mirror.offsets.offset_map_pages import MapPage
from connectors.mirror.retention.deadline import LogState, RetentionLimits
from connectors.mirror.spark.copy.executor import ShardResult
from connectors.mirror.topics.clusters import topic_selector
from connectors.mirror.topics.create import apply_plan
from connectors.mirror.topics.forwarding_admin import forwarding_admin
from connectors.mirror.topics.selection import TopicSelector, plan_topics
from connectors.spark.arrow import collect, map_batches
from connectors.spark.errors import SparkJobFailed, job_errors

__all__ = ["ArchiveReader", "RestoreSurvey", "archived_topics", "restore_engine"]

_TIMEOUT_S = 60.0
_TIMESTAMP_TYPE = "message.timestamp.type"
_ARROW_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ARROW_BYTES = 16 * 1024 * 1024
_MOST_ROWS = 10_000


class ArchiveReader:
    """Reads an archive's records with Spark."""

    def __init__(self, session: SparkSession, store: ArchiveStore) -> None:
        self._store = store
        largest = max(
            (
                each.bytes // each.records
                for ranges in store.ledger.ranges.values()
                for each in ranges
                if each.records
            ),
            default=1,
        )
        # Spark hands rows to Python by number, whatever their size.
        rows = max(1, min(_MOST_ROWS, _ARROW_BYTES // max(1, largest)))
        session.conf.set(_ARROW_RECORDS, str(rows))

    def scans(self, ranges: Sequence[ArchivedRange]) -> Iterable[Sequence[ArchivedRange]]:
        """Split ranges into those that are best read together, each of one partition."""
        return self._store.place.scans(ranges)

    def rows(self, ranges: Collection[OffsetRange]) -> DataFrame | None:
        """Return the rows of these ranges with READ_SCHEMA, as one task's, in the order of topic,
        partition and offset; None if the ledger has no records of them."""
        ledger = self._store.ledger
        wanted = [each for each in ranges if ledger.has_records(*each)]
        if not wanted:
            return None
        rows = self._store.place.rows(ledger, wanted).select(*READ_COLUMNS)
        return rows.coalesce(1).sortWithinPartitions("topic", "partition", "offset")


def restore_engine(session: SparkSession, setup: TargetSetup, reader: ArchiveReader) -> PieceEngine:
    """Return an engine that restores on this session's executors."""

    def restore(piece: Chunk) -> PieceOutcome:
        rows = reader.rows([(each.source, each.start, each.end) for each in piece.ranges])
        if rows is None:
            return PieceOutcome(tuple(_nothing(each) for each in piece.ranges), ())
        try:
            with job_errors("The restore"):
                what = f"Restore, piece {piece.number}: {len(piece.ranges)} partitions"
                session.sparkContext.setJobDescription(what)
                work = piece_restorer(setup, piece.ranges, piece.seconds)
                found = collect(map_batches(rows, work, RESULT)).to_pylist()
        except SparkJobFailed as error:
            return PieceOutcome((), (), str(error), sure=False)
        result = ShardResult.of_json(found[0]["result"])
        if result.again:
            return PieceOutcome((), (), result.error, sure=False)
        return PieceOutcome(tuple(result.progress), tuple(result.copied), result.error)

    return restore


def _nothing(wanted: SourceRange) -> RangeProgress:
    return RangeProgress(wanted, wanted.end, 0, 0, None)


def archived_topics(
    flow: DedicatedFlow, store: ArchiveStore, pattern: JavaRegex | None
) -> dict[str, ArchivedTopic]:
    """Return the topics of the archive that the flow copies, or whose whole name `pattern` matches.
    Raises `ConfigError` if there are none."""
    ledger = store.ledger
    counts = {topic: each.partitions for topic, each in ledger.topics.items()}
    selected = _selector(flow, pattern).select(counts).copied
    if not selected:
        asked = "the flow's topic filter" if pattern is None else "--topics"
        raise ConfigError(
            f"No topic in {store.files.root} that {asked} matches; it has "
            f"{', '.join(sorted(counts)[:5]) or 'none'}",
            key="--topics",
        )
    return {topic: ledger.topics[topic] for topic in selected}


def _selector(flow: DedicatedFlow, pattern: JavaRegex | None) -> TopicSelector:
    selector = topic_selector(flow.config)
    if pattern is None:
        return selector
    return replace(selector, topics=NamedTopics(pattern), replicate_heartbeats=False)


class RestoreSurvey:
    """The archive in the place of a flow's source, and the target: a `Survey`. The owner calls
    `close`. For one thread."""

    def __init__(
        self,
        flow: DedicatedFlow,
        store: ArchiveStore,
        reader: ArchiveReader,
        pattern: JavaRegex | None,
    ) -> None:
        """`pattern`: for whole names of archived topics; None: the flow's topics."""
        self._flow = flow
        self._store = store
        self._pattern = pattern
        self._config = flow.config
        consumer = client_configs.client_properties(
            flow.properties, "target", "consumer", "restore-target"
        )
        self._consumer = consumer
        self._admin = forwarding_admin(
            flow.properties, client_configs.target_admin(flow.properties)
        )
        self._target = ClusterLink(wire_settings(consumer), lambda: None, name="restore")
        self._tails = ArchiveTails(reader.rows, self._target)

    def close(self) -> None:
        self._target.close()
        self._admin.close()

    @property
    def target(self) -> ClusterLink:
        return self._target

    @property
    def tails(self) -> ArchiveTails:
        return self._tails

    def has_records(self, key: TopicPartition, first: int, end: int) -> bool:
        return self._store.ledger.has_records(key, first, end)

    def looked_again(self, facts: ClusterFacts) -> ClusterFacts:
        """Return the same facts: an archive loses nothing."""
        return facts

    def states(
        self, facts: ClusterFacts, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LogState]:
        now_ms = SYSTEM_CLOCK.now_ms()
        return {
            logs.source: LogState(
                logs.source_start, logs.source_end, positions[logs.source], now_ms
            )
            for logs in facts.logs
        }

    def gather(self, *, create: bool) -> ClusterFacts:
        with asking("target", self._consumer):
            self._admin.cluster_id(REACH_S)
        topics = self._topics()
        selector = _selector(self._flow, self._pattern)
        facts = ClusterFacts()
        self._store.place.check(self._store.ledger, topics)
        on_target = self._admin.list_topics(_TIMEOUT_S)
        counts = {topic: each.partitions for topic, each in topics.items()}
        facts.missing = plan_topics(counts, on_target, selector)
        if create:
            self._create(facts, topics)
            client = client_configs.offset_syncs_admin(self._flow.properties)
            with closing(forwarding_admin(self._flow.properties, client)) as admin:
                create_own_topics(admin, self._config)
            on_target = self._admin.list_topics(_TIMEOUT_S)
        there = [selector.remote(topic) for topic in topics if selector.remote(topic) in on_target]
        self._check_configs(facts, topics, selector, there)
        self._place(facts, counts, selector, on_target)
        return facts

    def _topics(self) -> dict[str, ArchivedTopic]:
        selector = _selector(self._flow, self._pattern)
        selected = archived_topics(self._flow, self._store, self._pattern)
        for topic in selected:
            if selector.changes_records(topic):
                raise ConfigError(
                    f"records of topic {topic} are transformed, but a restore writes what the "
                    "source had: leave it out with --topics",
                    key="--topics",
                )
        return selected

    def _create(self, facts: ClusterFacts, topics: Mapping[str, ArchivedTopic]) -> None:
        # The broker's own timestamps would replace those of the records.
        configs = {
            topic: {name: value for name, value in each.configs.items() if name != _TIMESTAMP_TYPE}
            for topic, each in topics.items()
        }
        threads = OneShotThreads("restore-topics")
        try:
            failures = apply_plan(
                facts.missing,
                self._admin,
                configs,
                self._config.replication_factor,
                self._config.admin_timeout_ms / 1000,
                threads,
            )
        finally:
            threads.stop()
        if failures:
            raise ConnectError(f"Topic {failures[0].remote} is not ready: {failures[0]}")

    def _check_configs(
        self,
        facts: ClusterFacts,
        topics: Collection[str],
        selector: TopicSelector,
        there: list[str],
    ) -> None:
        described = described_configs(self._admin, there, missing_ok=True)
        compacted: set[str] = set()
        for topic in topics:
            facts.limits[topic] = RetentionLimits()
            remote = selector.remote(topic)
            own = {each.name: each.value or "" for each in described.get(remote, ())}
            if own.get(_TIMESTAMP_TYPE) == "LogAppendTime":
                raise ArchiveRefused(
                    f"{remote} has {_TIMESTAMP_TYPE}=LogAppendTime, so its broker would replace "
                    "the timestamps of the archive: set it to CreateTime"
                )
            if "compact" in own.get("cleanup.policy", ""):
                compacted.add(topic)
        facts.compacted = frozenset(compacted)

    def _place(
        self,
        facts: ClusterFacts,
        counts: Mapping[str, int],
        selector: TopicSelector,
        on_target: Mapping[str, int],
    ) -> None:
        keys = {
            key: (selector.remote(key[0]), key[1])
            for key in self._store.ledger.ranges
            if key[0] in counts
        }
        there = {target for target in keys.values() if target[1] < on_target.get(target[0], 0)}
        stored: dict[TopicPartition, int] = {}
        offsets_topic = self._flow.offsets_topic.name
        if offsets_topic in on_target:
            client = self._flow.client("backfill-offsets")
            stored = stored_positions(self._config, offsets_topic, client)
        pages = self._pages(counts, on_target)
        self._target.watch_topics({topic for topic, _ in there})
        ends = listed(self._target, there, LATEST, 1)
        starts = listed(self._target, there, EARLIEST, 0)
        for key, target in keys.items():
            first, end = self._store.ledger.start(key), self._store.ledger.end(key)
            assert first is not None
            assert end is not None
            known = known_of(pages.get(key, {}).values())
            # The live flow may have copied more than is archived.
            reached = max(end, stored.get(key, 0), 0 if known is None else known.reach)
            facts.logs.append(
                PartitionLogs(
                    key,
                    target,
                    first,
                    reached,
                    starts.get(target, 0),
                    ends.get(target, 0),
                    stored.get(key),
                    known,
                )
            )
            facts.starts[key] = None
            facts.ends[key] = end
            records = sum(each.records for each in self._store.ledger.ranges[key])
            facts.sizes[key] = sum(each.bytes for each in self._store.ledger.ranges[key]) + records

    def _pages(
        self, wanted: Collection[str], on_target: Collection[str]
    ) -> dict[TopicPartition, dict[int, MapPage]]:
        if not self._config.mirror_offset_map_enabled:
            return {}
        on_source: Collection[str] = ()
        if client_configs.offset_syncs_side(self._config.originals) == "source":
            with closing(Admin(client_configs.offset_syncs_admin(self._flow.properties))) as admin:
                try:
                    on_source = admin.list_topics(REACH_S)
                except RetriableError as error:
                    raise ArchiveRefused(
                        "The offset map of the flow is on its source, which does not answer "
                        f"({error}): set offset-syncs.topic.location=target, and the restore "
                        "needs only the target"
                    ) from error
        return map_pages(self._config, self._flow.properties, on_source, on_target, wanted)
