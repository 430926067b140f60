"""Reads and writes the flows' records in the topic `mm2-provenance.internal` of both clusters.

A flow reads the records on its source, which say where the source's topics came from, and keeps its
own on the target. A topic is claimed there before its first record is copied, and the source is
read again after that. Of two flows that start at the same time, at least one sees the other. The
flow that began later stops copying the topic. Belongs to the thread of the topic refresh.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from connect.clients.errors import not_authorized
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.topic_log import LogRecord, TopicLog
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, CorruptData, DeadlineExceeded
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.topics.create import ensure_compacted_topic
from connectors.mirror.topics.provenance import (
    Copied,
    FlowRecord,
    Hop,
    ancestry,
    flow_key,
    loop_detail,
    loop_of,
)
from connectors.mirror.topics.selection import Selection, Skip, SkipReason, TopicSelector

__all__ = ["PROVENANCE_TOPIC", "FlowTopics", "Provenance", "release"]

log = logging.getLogger(__name__)

PROVENANCE_TOPIC = "mm2-provenance.internal"

_RENEW_S = 60.0
_LEAST_VALID_S = 600.0
# For a flow that looks at its topics only once.
_VALID_ONCE_S = 86_400.0
_CLOSE_S = 2.0


def _read(props: Mapping[str, str], deadline: Deadline) -> dict[bytes, FlowRecord]:
    """Return the records on a cluster by key. `props`: Java properties of a client. The topic must
    exist. Raises `ConnectError`."""
    records: dict[bytes, FlowRecord] = {}
    topic = TopicLog(PROVENANCE_TOPIC, props, lambda record: _take(records, record))
    try:
        topic.start(deadline)
    finally:
        topic.stop(Deadline(_CLOSE_S))
    return records


def _write(
    props: Mapping[str, str], key: bytes, record: FlowRecord | None, deadline: Deadline
) -> None:
    """Write a flow's record; None deletes it. Raises `ConnectError`."""
    topic = TopicLog(PROVENANCE_TOPIC, props, lambda _: None)
    value = None if record is None else record.encode()
    try:
        topic.send(key, value, partition=0).result(deadline.remaining())
    except TimeoutError as error:
        raise DeadlineExceeded(f"Writing to topic {PROVENANCE_TOPIC} took too long") from error
    finally:
        topic.stop(Deadline(_CLOSE_S))


def _take(records: dict[bytes, FlowRecord], record: LogRecord) -> None:
    key = record.key or b""
    records.pop(key, None)
    if record.value is None:
        return
    try:
        decoded = FlowRecord.decode(record.value)
    except CorruptData as error:
        log.warning("Skipping record %d of %s: %s", record.offset, PROVENANCE_TOPIC, error)
        return
    if decoded is not None:
        records[key] = decoded


def release(config: SourceConfig, deadline: Deadline) -> None:
    """Delete the record of a flow that no longer copies, so that the other direction may begin at
    once. Raises `ConnectError`."""
    props = client_configs.target_admin(config.originals)
    with closing(Admin(props)) as admin:
        if PROVENANCE_TOPIC not in admin.describe_topics([PROVENANCE_TOPIC], deadline.remaining()):
            return
    key = flow_key(config.source_cluster_alias, config.target_cluster_alias, config.name)
    if key in _read(props, deadline):
        _write(props, key, None, deadline)
        flow = f"{config.source_cluster_alias}->{config.target_cluster_alias}"
        log.info("Deleted the record of flow %s from topic %s", flow, PROVENANCE_TOPIC)


class FlowTopics(NamedTuple):
    """The result of a topic refresh. `source`, `target`: admin client and cluster id."""

    source: tuple[Admin, str]
    target: tuple[Admin, str]
    selector: TopicSelector
    selection: Selection


class Provenance:
    """Tracks where one flow's topics came from."""

    def __init__(self, config: SourceConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        self._config = config
        self._clock = clock
        self._flow = config.flow
        self._key = flow_key(config.source_cluster_alias, config.target_cluster_alias, config.name)
        self._target = client_configs.target_admin(config.originals)
        self._timeout = config.admin_timeout_ms / 1000
        interval_s = config.refresh_topics_interval_s
        valid_s = _VALID_ONCE_S if interval_s is None else max(_LEAST_VALID_S, 3 * interval_s)
        self._valid_ms = int(valid_s * 1000)
        self._sources: dict[bytes, FlowRecord] = {}
        self._source_end = 0
        self._mine: dict[str, Copied] | None = None
        self._written_at: float | None = None
        self._off = not config.mirror_provenance_enabled
        self._refused = False
        """Whether a missing permission was logged. It may be granted at any time."""
        self.waits = False
        """Whether topics wait until it is certain where they came from."""

    def check(self, topics: FlowTopics, mirrored: Collection[str]) -> Selection:
        """Return the selection without topics that came from the target. `mirrored`: topics that
        the flow copies already. Raises `ConnectError`."""
        self.waits = False
        if self._needless(topics):
            return topics.selection
        try:
            checked = self._check(topics, mirrored)
        except ConnectError as error:
            # A claim may not have been written; the next attempt reads what was.
            self._mine = None
            if not not_authorized(error):
                raise
            if self._refused:
                return topics.selection
            self._refused = True
            log.warning(
                "%s: loops are found only by names: %s; grant Create, Read and Write on topic "
                "%s at the target and Read on it at the source, or set "
                "mirror.provenance.enabled=false",
                self._flow,
                error,
                PROVENANCE_TOPIC,
            )
            return topics.selection
        if self._refused:
            self._refused = False
            log.info("%s: loops are found by topic %s again", self._flow, PROVENANCE_TOPIC)
        return checked

    def look(self, topics: FlowTopics) -> Selection:
        """Return what `check` would, without writing: for those who only ask. Raises
        `ConnectError`."""
        if self._needless(topics):
            return topics.selection
        if topics.target[0].describe_topics([PROVENANCE_TOPIC], self._timeout):
            self._mine = self._load()
        self._read_source(topics.source[0])
        skipped: dict[str, Skip] = {}
        self._claims(topics, skipped)
        return _without(topics.selection, skipped)

    def _needless(self, topics: FlowTopics) -> bool:
        return self._off or topics.source[1] == topics.target[1]

    def _check(self, topics: FlowTopics, mirrored: Collection[str]) -> Selection:
        (source, source_id), (target, target_id) = topics.source, topics.target
        if self._mine is None:
            factor = self._config.offset_syncs_topic_replication_factor
            ensure_compacted_topic(target, PROVENANCE_TOPIC, factor, self._timeout)
            self._mine = self._load()
        before = dict(self._mine)
        self._read_source(source)
        skipped: dict[str, Skip] = {}
        self._mine = self._claims(topics, skipped)
        if self._mine.keys() - before.keys():
            # Another flow may have claimed meanwhile what this one claims now.
            self._write(source_id)
            self._read_source(source)
            claimed = self._mine
            self._mine = self._claims(topics, skipped)
            if self._mine != claimed:
                self._write(source_id)
        elif self._mine != before or self._due():
            self._write(source_id)
        left = _without(topics.selection, skipped)
        copied = {
            topic: partitions
            for topic, partitions in left.copied.items()
            if topic in mirrored or self._certain(target_id, topics.selector.remote(topic), before)
        }
        self.waits = len(copied) < len(left.copied)
        return replace(left, copied=copied)

    def _certain(self, target: str, remote: str, before: Mapping[str, Copied]) -> bool:
        """Whether the origin of a topic is certain enough to copy it. Records of origins spread
        from flow to flow, so the copy of a copy begins only after a round in which nothing new was
        learned."""
        assert self._mine is not None
        mine = self._mine[remote]
        if loop_of(mine.hops, target) is not None:
            return False  # The flow that began later has yet to give way.
        former = before.get(remote)
        return not mine.hops or (former is not None and former.hops == mine.hops)

    def _claims(self, topics: FlowTopics, skipped: dict[str, Skip]) -> dict[str, Copied]:
        """Return what this flow copies and may copy; put other topics into `skipped`."""
        mine, selector = self._mine or {}, topics.selector
        source, target = topics.source[1], topics.target[1]
        now_ms = self._clock.now_ms()
        claims: dict[str, Copied] = {}
        for topic in topics.selection.copied:
            remote = selector.remote(topic)
            hops = ancestry(self._sources.values(), topic, source, now_ms)
            loop = loop_of(hops, target)
            former = mine.get(remote)
            if former is not None and former.topic != topic:
                former = None
            if loop is not None and (former is None or not _began_first(former, source, loop)):
                detail = loop_detail(loop, selector.target_alias)
                skipped[topic] = Skip(topic, SkipReason.LOOP, detail)
                continue
            since_ms = now_ms if former is None else former.since_ms
            claims[remote] = Copied(topic, since_ms, hops)
        return claims

    def _load(self) -> dict[str, Copied]:
        records = _read(self._target, Deadline(self._timeout))
        mine = records.get(self._key)
        if mine is None or not mine.live(self._clock.now_ms()):
            return {}
        return dict(mine.topics)

    def _read_source(self, admin: Admin) -> None:
        """Read the source's records if there are new ones."""
        if PROVENANCE_TOPIC not in admin.describe_topics([PROVENANCE_TOPIC], self._timeout):
            self._sources = {}
            return
        end = admin.end_offsets([(PROVENANCE_TOPIC, 0)], self._timeout)[PROVENANCE_TOPIC, 0]
        if end != self._source_end:
            props = client_configs.source_admin(self._config.originals)
            self._sources = _read(props, Deadline(self._timeout))
            self._source_end = end

    def _due(self) -> bool:
        interval_s = self._config.refresh_topics_interval_s or 0.0
        at = self._written_at
        return at is None or self._clock.monotonic() >= at + max(_RENEW_S, interval_s)

    def _write(self, source: str) -> None:
        record = FlowRecord(
            source,
            self._config.source_cluster_alias,
            self._clock.now_ms(),
            self._valid_ms,
            self._mine or {},
        )
        _write(self._target, self._key, record, Deadline(self._timeout))
        self._written_at = self._clock.monotonic()


def _without(selection: Selection, skipped: Mapping[str, Skip]) -> Selection:
    copied = {name: count for name, count in selection.copied.items() if name not in skipped}
    return Selection(copied, (*selection.skipped, *skipped.values()))


def _began_first(mine: Copied, source: str, other: Hop) -> bool:
    return (mine.since_ms, source) < (other.since_ms, other.cluster)
