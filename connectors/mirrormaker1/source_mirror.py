"""Mirrors one source: a member of its group, whose partitions are copied and committed.

    assigned -> looked up on both clusters -> copied as bytes, or record by record
    revoked  -> batches in flight answered, offsets committed -> the next member's

A partition is copied as bytes where the target's topic has as many partitions as the source's and
there is no message handler; else its records are consumed, and their keys decide the partition.
Everything happens on the thread that calls `run`; only `stop` is for other threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence

from connect.clients.errors import translated
from connect.clients.librdkafka import factory
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.copy.settings import engine_settings
from connectors.mirror.history.recorder import TaskHistory
from connectors.mirrormaker1.batch_copier import BatchCopier
from connectors.mirrormaker1.lookup import Clusters, Lookup
from connectors.mirrormaker1.plugins import RebalanceListener
from connectors.mirrormaker1.record_copier import RecordCopier, SameRecord
from connectors.mirrormaker1.settings import MirrorSettings, SourceFile
from connectors.mirrormaker1.source_group import SourceGroup

__all__ = ["SourceMirror"]

_LOG = logging.getLogger(__name__)

_CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
"""The connector whose `mirror.*` keys hold here too."""

_TURN_S = 0.1
_SHORT_TURN_S = 0.005
"""While both ways of copying have partitions, neither waits for long."""

_RECORDS = 1_000
_DRAIN_S = 10.0
"""How long records in flight may take before a partition is given to the next member."""

_LOOK_S, _RETRY_LOOK_S = 60.0, 2.0
_CHECK_S, _TELL_S = 1.0, 30.0
_SHOWN = 5
_BUFFER_KB = 32 * 1024
"""Java's buffer.memory; librdkafka's own default is 1 GiB."""


class SourceMirror:
    """One source. `failure` says why it ended by itself."""

    def __init__(
        self, source: SourceFile, settings: MirrorSettings, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """Check the properties; nothing is connected yet. Raises `ConfigError`."""
        self._source = source
        self._settings = settings
        self._clock = clock
        config = SourceConfig.from_properties(
            {
                "name": source.properties["group.id"],
                "connector.class": _CLASS,
                "source.cluster.alias": source.name,
                "target.cluster.alias": settings.target_name,
                **{
                    key: value
                    for key, value in settings.producer.items()
                    if key.startswith("mirror.")
                },
            }
        )
        self._config = config
        self._engine_settings = engine_settings(config, source.properties, settings.producer)
        age_s = self._engine_settings.source.metadata_max_age_ms / 1000
        given = "metadata.max.age.ms" in source.properties
        self._look_s = age_s if given else min(age_s, _LOOK_S)
        self._stop = threading.Event()
        self._commit_at = self._look_at = self._check_at = self._tell_at = 0.0
        self._subscribed: Sequence[str] = ()
        self._missing: set[str] = set()
        self._told: Mapping[str, str] = {}
        self._idle = False
        self._assigned: set[TopicPartition] = set()
        self._undecided: set[TopicPartition] = set()
        self._fresh: set[TopicPartition] = set()
        self._counts: dict[str, tuple[int, int]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._paused = False
        self._asked_for: frozenset[TopicPartition] = frozenset()
        self.skipped = 0
        """Records that were not copied because the target refused them."""
        self.failure: str | None = None

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def _needed(self) -> str:
        """Return what a producer needs that may write nothing: it is refused before its first
        record (KIP-679)."""
        topics = ", ".join(self._subscribed[:_SHOWN])
        return f"Write on topic {topics}; on brokers before 2.8 IdempotentWrite on the cluster, too"

    def stop(self) -> None:
        """Ask `run` to end. Thread-safe."""
        self._stop.set()

    def run(self) -> None:
        """Mirror until `stop` or a failure; then commit what was acknowledged and leave the
        group."""
        try:
            self._open()
            try:
                while not self._stop.is_set() and self.failure is None:
                    self._turn()
            finally:
                self._close()
        except Exception as error:  # noqa: BLE001 - the top of a thread: its owner reads `failure`
            known = isinstance(error, ConnectError)
            self.failure = str(error) if known else f"unexpected error: {error!r}"
            _LOG.error("%s: stopped: %s", self.name, self.failure, exc_info=not known)

    def _open(self) -> None:
        settings, props = self._settings, self._source.properties
        overrides = (
            {}
            if "buffer.memory" in settings.producer
            else {"queue.buffering.max.kbytes": _BUFFER_KB}
        )
        self._producer = factory.producer(settings.producer, overrides=overrides)
        self._history = TaskHistory(self._config, self._config.name, 0, self._clock)
        self._batches = BatchCopier(
            self._engine_settings, self._refused, self._history, self._clock
        )
        self._records = RecordCopier(
            self._producer, settings.handler or SameRecord(), self._refused, self._unwritten
        )
        self._lookup = Lookup(props, settings.producer, self._producer, settings.topics)
        self._group = SourceGroup(props, self._on_assigned, self._on_revoked, self._on_lost)
        self._listener = settings.listener or RebalanceListener()
        self._commit_at = self._clock.monotonic() + settings.commit_interval_ms / 1000

    def _close(self) -> None:
        try:
            self._let_go(set(self._assigned))
        finally:
            self._group.close()
            self._lookup.close()
            self._batches.close()
            self._history.close()
        _LOG.info(
            "%s: stopped; %d records copied as bytes, %d one by one, %d skipped",
            self.name,
            self._batches.records,
            self._records.records,
            self.skipped,
        )

    # One turn.

    def _turn(self) -> None:
        by_bytes, by_record = bool(self._batches.partitions), bool(self._records.partitions)
        if by_bytes:
            self._batches.step(_SHORT_TURN_S if by_record else _TURN_S)
        wait_s = 0.0 if by_bytes else _SHORT_TURN_S if self._records.full else _TURN_S
        consumed = self._group.poll(_RECORDS, wait_s)
        if self._subscribed:  # Before, there is nothing to write, so nothing that may not be.
            with translated("Writing to the target", self._needed):
                self._records.take(consumed)
        self._hold_back()
        self._look()
        self._commit()
        self._check()

    def _hold_back(self) -> None:
        """Consume only while the producer has room; after a refusal, go back."""
        rewind_s = self._records.rewind_s
        if rewind_s is not None and self.failure is None and not self._stop.wait(rewind_s):
            self._records.flush(Deadline(_DRAIN_S, self._clock))
            for key, offset in self._records.rewind().items():
                self._group.resume(key, offset)
            self._paused = True
        if self._paused is not self._records.full:
            self._paused = self._records.full
            self._group.pause(self._records.partitions, on=self._paused)

    def _look(self) -> None:
        """Keep up with the topics of both clusters, and place new partitions."""
        now = self._clock.monotonic()
        if not self._lookup.asking and now >= self._look_at:
            self._look_at = now + (_RETRY_LOOK_S if self._undecided else self._look_s)
            self._asked_for = frozenset(self._undecided)
            topics = {topic for topic, _ in self._assigned}
            self._lookup.ask(topics, committed=bool(self._undecided))
        try:
            found = self._lookup.take()
        except RetriableError as error:
            _LOG.warning("%s: %s; trying again", self.name, error)
            self._look_at = now + _RETRY_LOOK_S
            return
        if found is not None:
            self._place(found)
            self._subscribe(found.wanted)

    def _subscribe(self, wanted: Mapping[str, int]) -> None:
        # While a leader is elected a listing may lack a topic, for which the group need not
        # rebalance.
        missing = set(self._subscribed) - wanted.keys()
        topics = sorted({*wanted, *(missing - self._missing)})
        self._missing = missing
        if not topics:
            if not self._idle:
                _LOG.warning(
                    "%s: no topic of the source matches yet; if none is to come, correct "
                    "--whitelist",
                    self.name,
                )
            self._idle = True
            self._look_at = min(self._look_at, self._clock.monotonic() + _RETRY_LOOK_S)
        elif topics != self._subscribed:
            _LOG.info("%s: mirroring %d topics: %s", self.name, len(topics), ", ".join(topics))
            self._subscribed = topics
            self._group.subscribe(topics)

    def _place(self, found: Clusters) -> None:
        """Begin to copy the partitions that waited for this answer."""
        moved = {
            topic
            for topic, counts in self._counts.items()
            if topic in found.target
            and topic in found.wanted
            and counts != (found.wanted[topic], found.target[topic])
        }
        again = {key for key in self._assigned - self._undecided if key[0] in moved}
        if again:
            _LOG.info("%s: the partitions of %s changed", self.name, ", ".join(sorted(moved)))
            self._let_go(again)
            self._await(again)
            return
        ready = {
            key
            for key in self._undecided & self._asked_for
            if key[0] in found.target and key[0] in found.wanted
        }
        if found.missing != self._told:
            self._told = found.missing
            for topic, reason in sorted(found.missing.items()):
                _LOG.warning("%s: topic %s waits: %s", self.name, topic, reason)
        by_bytes: dict[TopicPartition, int | None] = {}
        for key in sorted(ready):
            topic = key[0]
            self._counts[topic] = counts = (found.wanted[topic], found.target[topic])
            committed = found.committed.get(key)
            if committed is not None:
                self._committed[key] = committed
            if counts[0] == counts[1] and self._settings.handler is None:
                by_bytes[key] = committed
            else:
                self._records.add(key)
                # At first the consumer stands at the committed offset by itself.
                self._group.resume(key, None if key in self._fresh else committed)
        if self._paused:
            self._group.pause(self._records.partitions, on=True)
        if by_bytes:
            self._batches.add(by_bytes)
        self._undecided -= ready
        self._fresh -= ready

    def _commit(self) -> None:
        committed = self._group.take_committed()
        if committed:
            self._note(committed)
        now = self._clock.monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._settings.commit_interval_ms / 1000
            self._group.commit(self._uncommitted(self._assigned))

    def _check(self) -> None:
        """Stop at what can never be copied, and tell now and then what waits."""
        now = self._clock.monotonic()
        if now < self._check_at:
            return
        self._check_at = now + _CHECK_S
        if self._batches.waits_for_commit:
            self._commit_at = now
        refusal = self._batches.refusal()
        if refusal is not None and self._settings.abort_on_send_failure:
            self._fail(refusal)
        if now >= self._tell_at:
            self._tell_at = now + _TELL_S
            for (topic, number), error in sorted(self._batches.errors().items()):
                _LOG.warning("%s: %s-%d waits: %s", self.name, topic, number, error)

    def _fail(self, reason: str) -> None:
        if self.failure is None:
            self.failure = reason
            _LOG.error("%s: stopping, because --abort.on.send.failure=true: %s", self.name, reason)

    def _refused(self, key: TopicPartition, first: int, last: int, reason: str) -> bool:
        """Judge records that the target rejected permanently: stop, or skip them."""
        if self._settings.abort_on_send_failure:
            self._fail(reason)
            return False
        self.skipped += last - first + 1
        _LOG.error(
            "%s: skipped the record of %s-%d at offset %d (%d skipped since the start): %s",
            self.name,
            *key,
            first,
            self.skipped,
            reason,
        )
        self._history.skipped(key, first, last, f"{key[0]}-{key[1]}: {reason}")
        return True

    def _unwritten(self, reason: ConnectError) -> None:
        """Judge a send that failed, but not for the record's sake: what passes by itself is waited
        for, as where batches are refused."""
        if self._settings.abort_on_send_failure and not reason.retriable:
            self._fail(str(reason))
        else:
            _LOG.warning("%s: trying again: %s", self.name, reason)

    # The group's calls.

    def _on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        _LOG.info("%s: assigned %s", self.name, _listed(partitions))
        self._assigned.update(partitions)
        self._fresh.update(partitions)
        self._await(partitions)
        self._listener.on_partitions_assigned(partitions)

    def _on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        _LOG.info("%s: revoked %s", self.name, _listed(partitions))
        self._let_go(set(partitions))
        self._assigned.difference_update(partitions)
        self._listener.on_partitions_revoked(partitions)

    def _on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        _LOG.warning(
            "%s: lost %s; their records since the last commit are copied again by the members that "
            "have them now",
            self.name,
            _listed(partitions),
        )
        self._batches.drop(partitions)
        if self._records.partitions:
            self._records.remove(partitions)
            self._records.purge()
        self._forget(partitions)
        self._assigned.difference_update(partitions)
        self._listener.on_partitions_lost(partitions)

    def _await(self, partitions: Collection[TopicPartition]) -> None:
        """Look these partitions up now; they are copied once the lookup has ended."""
        self._undecided.update(partitions)
        # An answer to an earlier question may have older offsets.
        self._asked_for -= frozenset(partitions)
        self._look_at = self._clock.monotonic()

    def _let_go(self, partitions: Collection[TopicPartition]) -> None:
        """End copying, and commit what is acknowledged, so that the next owner copies nothing
        twice."""
        deadline = Deadline(_DRAIN_S, self._clock)
        by_record = [key for key in partitions if key in self._records.partitions]
        self._group.pause(by_record, on=True)
        self._batches.remove(partitions, deadline)
        if by_record and not self._records.flush(deadline):
            _LOG.warning(
                "%s: not every record in flight was acknowledged in time; these are copied again",
                self.name,
            )
            self._records.purge()
        offsets = self._uncommitted(partitions)
        if self._group.commit_now(offsets):
            self._note(offsets)
        self._records.remove(by_record)
        self._forget(partitions)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._batches.forget(partitions)
        self._undecided.difference_update(partitions)
        self._fresh.difference_update(partitions)
        for key in partitions:
            self._committed.pop(key, None)

    # Offsets.

    def _uncommitted(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the acknowledged positions of these partitions that are not committed."""
        reached = self._batches.positions()
        for key in self._records.partitions:
            position = self._records.position(key)
            if position is not None:
                reached[key] = position
        return {
            key: reached[key]
            for key in partitions
            if key in reached and reached[key] != self._committed.get(key)
        }

    def _note(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._committed.update(offsets)
        self._batches.committed(offsets)


def _listed(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "nothing"
