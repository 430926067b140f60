"""Writes the offset syncs and offset map pages of a flow, and prepares its source offsets.

The copier reports with `copied` where source records are on the target, and with `prepare` how far
each partition is. The result is the same for copies by worker threads, Spark or a backfill. Belongs
to one thread.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.plugin import StoredOffset
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.internal_topics import (
    KafkaOffsetTopicClients,
    MapReader,
    OffsetTopicClients,
)
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.map_notes import Note, Owner, note_key
from connectors.mirror.offsets.map_topic_reading import NOTHING_READ, MapTopic
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from connectors.mirror.offsets.offset_map_writer import DuePages, MapWriter
from connectors.mirror.offsets.offset_sync_producer import OffsetSyncProducer
from connectors.mirror.offsets.offset_syncs import OffsetSyncRule
from connectors.mirror.offsets.source_offsets import Reached, source_partition
from connectors.mirror.offsets.start_positions import FirstPosition, StoredStarts

__all__ = ["PAGES_EVERY_S", "OffsetSyncWriter"]


_CLOSE_SYNCS_S = 2.0
_CLOSE_READ_S = 2.0

_HOLD_S = 30.0
"""How long pages wait for the read of the topic."""

_CHECK_EVERY_S = 300.0
"""How often the map topic is read again. It is well below the time until the topic is compacted, so
readers still see an overwritten page and use the later session."""

_PROOF_S = 2.0
"""How long pages wait until a written note of the owner was read. A commit, also the last one of a
task, waits for them."""

_PROOF_LOOK_S = 0.05
"""How often it is looked whether that note was read."""

_FROZEN_S = 10.0
"""A worker that made no call for this long was frozen. It may have left its group, or soon will."""

PAGES_EVERY_S = 5.0
"""How often map pages are written under exactly-once, where offsets are stored without them,
because a page per transaction would be too expensive."""


class OffsetSyncWriter:
    """Writes the offset syncs and the offset map of one task. Belongs to one thread."""

    def __init__(
        self,
        config: SourceConfig,
        index: str | None,
        clock: Clock = SYSTEM_CLOCK,
        topics: OffsetTopicClients | None = None,
    ) -> None:
        """Args: index: the task's number, for the clients' names.
        topics: opens the topics; None: on the clusters that the config names."""
        self._config = config
        self._clock = clock
        self._rules: dict[TopicPartition, OffsetSyncRule] = {}
        self._syncs: OffsetSyncProducer | None = None
        self._map = MapWriter(clock)
        self._topics: OffsetTopicClients | None = None
        """Reads the map topic; None: there is no map, or the writer is closed."""
        self._reader: MapReader | None = None
        self._read: deque[MapTopic] = deque()
        self._found: MapTopic | None = None
        self._looks_again = False
        self._checks = False
        """Whether the current read is only compared with the pages of this task."""
        self._stood_still = False
        """The task was frozen, and does not know yet what others have written since. Until it does,
        it writes nothing."""
        self._read_is_old = False
        """The current read began before the task was frozen."""
        self._waiting: list[tuple[Sequence[Reached], Callable[[], None]]] = []
        """Page writes that wait until the note of the owner is written and read, or until the topic
        was read again after the task was frozen."""
        self._polled_at = clock.monotonic()
        self._check_at = self._polled_at + _CHECK_EVERY_S
        self._hold_until = self._polled_at + _HOLD_S
        self._proof_until = self._polled_at
        self._facts: dict[TopicPartition, LogIdentity] = {}
        self._without_facts: set[TopicPartition] = set()
        """Partitions whose facts were not written beside their offsets, as the topic was read."""
        self._own_facts: set[TopicPartition] = set()
        """Partitions whose facts this task has written: those of earlier tasks were compared."""
        self._starts = StoredStarts()
        if not (config.emit_offset_syncs_enabled or config.mirror_offset_map_enabled):
            return
        topics = topics or KafkaOffsetTopicClients(config, index)
        self._syncs = topics.writer(clock)
        if config.mirror_offset_map_enabled:
            self._topics = topics
            self._read_map(NOTHING_READ)

    @property
    def trouble(self) -> str | None:
        """Return what cannot be written now; None if everything can."""
        return None if self._syncs is None else self._syncs.trouble

    def facts(self) -> Mapping[TopicPartition, LogIdentity] | None:
        """Return the facts about the partitions' logs from the last read; None while the topic is
        being read."""
        if self._topics is None:
            return {}
        self._take_read()
        return self._facts if self._reader is None or self._checks else None

    def take_without_facts(self) -> Collection[TopicPartition]:
        """Return the partitions whose facts could not be written with their offsets, each once, as
        soon as they can be."""
        if not self._without_facts or self.facts() is None:
            return ()
        taken, self._without_facts = self._without_facts, set()
        return taken

    def _read_map(self, before: MapTopic, *, checks: bool = False) -> None:
        assert self._topics is not None, "the offset sync writer is closed"
        self._checks = checks
        self._read_is_old = False
        self._map.read_begins()
        self._check_at = self._clock.monotonic() + _CHECK_EVERY_S
        self._hold_until = self._clock.monotonic() + _HOLD_S
        if not checks:
            self._map.reads()
        # The reader calls back on its own thread.
        self._reader = self._topics.read_map(self._read.append, before)

    def _take_read(self) -> None:
        if not self._read:
            return
        self._reader = None  # It has closed itself.
        found = self._read.popleft()
        # The pages need not be kept twice.
        self._found = found.without_contents()
        self._starts.has_read(found.firsts, found.forgotten, self._clock.now_ms())
        self._facts.update(found.facts)
        self._map.has_read(found, stood_still=self._stood_still)
        if not self._read_is_old:
            self._go_on()
        self._write_waiting(failed=False)
        self._write_pages(())
        if self._looks_again and self._topics is not None:
            self._looks_again = False
            self._read_map(self._found)

    def _notice_standstill(self) -> None:
        """After a standstill write nothing until the topic was read. Another task may have the
        partitions by now, and pages under their keys."""
        now = self._clock.monotonic()
        stood, self._polled_at = now - self._polled_at > _FROZEN_S, now
        if not stood:
            return
        self._stood_still = self._topics is not None
        self._read_is_old = self._reader is not None
        if self._syncs is not None:
            self._syncs.hold(self._stood_still)

    def _go_on(self) -> None:
        if not self._stood_still or self._syncs is None:
            return
        self._stood_still = False
        for key in [key for key in self._rules if self._map.owners.lost(key)]:
            self._syncs.discard(key)
        self._syncs.hold(False)

    def _check(self) -> None:
        """Read the topic from time to time, because a worker that was frozen or could not write may
        overwrite pages of partitions that it has lost. Pages of this task that are in flight would
        look as if others had replaced them."""
        waits = self._stood_still or self._map.owners.unread
        due = waits or self._clock.monotonic() >= self._check_at
        if self._syncs is not None and self._syncs.pages_in_flight:
            return
        if due and self._reader is None and self._topics is not None and self._found is not None:
            self._read_map(self._found, checks=True)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # Start positions of partitions without a stored offset.

    def look_again(self) -> None:
        """Read the topic again, because others may have copied or started partitions that are new
        here."""
        self._take_read()
        if self._reader is not None:
            self._looks_again, self._checks = True, False
            self._map.reads()
        elif self._topics is not None and self._found is not None:
            self._read_map(self._found)

    def first_positions(self) -> Mapping[TopicPartition, FirstPosition] | None:
        """Return the stored start positions (`StoredStarts.all`); None while the topic is being
        read."""
        self._take_read()
        return self._starts.all() if self._reader is None else None

    @property
    def keeps_first_positions(self) -> bool:
        """Whether start positions are stored. They are not if the map is disabled or may not be
        read."""
        if self._found is None:
            return self._topics is not None
        return self._found.reached is not None

    def keep_first(self, firsts: Mapping[TopicPartition, FirstPosition]) -> Future[None]:
        """Store start positions. The future completes when they are written."""
        assert self._syncs is not None, "start positions are only stored with the offset map"
        return self._syncs.write_pages(self._starts.keep(firsts))

    def forget_first(self, keys: Collection[TopicPartition]) -> None:
        """Delete stored start positions of these partitions, because an offset is stored now."""
        gone = self._starts.forget(keys)
        if gone and self._syncs is not None:
            self._syncs.write_pages(gone)

    # Copied and lost records.

    def lost(self, key: TopicPartition, loss: Loss, anchor: tuple[int, int] | None) -> None:
        """Record a loss in one of the partition's logs, so that the map is not misleading from now
        on. `anchor`: a known place on both sides before the lost target offsets."""
        if self._syncs is None:
            return
        if loss.on_target:
            # Syncs that wait lead to records that are gone.
            self._syncs.discard(key)
            self._rules.pop(key, None)
        if not self._config.mirror_offset_map_enabled:
            return
        if loss.on_target:
            # A page that a worker without this partition wrote may lead past the loss.
            self._check_at = self._clock.monotonic()
        self._notice_standstill()
        if self._map.lost(key, loss, anchor):
            self._write_pages(())

    def copied(
        self,
        key: TopicPartition,
        runs: Sequence[OffsetRun],
        base_offset: int,
        log_start: int = -1,
    ) -> None:
        """Record that the target has these records from `base_offset` on, without gaps; below 0:
        the offset is not known. `log_start`: see `Reached`. Call in each partition's order."""
        if self._syncs is None or base_offset < 0:
            return
        self._map.source_begins(key, log_start)
        rule = self._rules.get(key)
        first = rule is None
        if rule is None:
            rule = self._rules[key] = OffsetSyncRule(self._config.offset_lag_max)
        target = base_offset
        for source, count in runs:
            if self._config.mirror_offset_map_enabled:
                self._map.copied(key, source, count, target)
            if self._config.emit_offset_syncs_enabled:
                for point in rule.copied(source, count, target):
                    if self._map.owners.lost(key):
                        continue
                    self._syncs.sync(key, point, first=first)
                    first = False
            target += count

    def poll(self) -> None:
        """Handle delivery reports and send what waits. Call often; returns at once."""
        self._notice_standstill()
        if self._syncs is not None:
            self._syncs.poll()
        if self._stood_still or self._map.owners.unread:
            self._take_read()
            self._check()
            self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        """Write pages whose note of the owner cannot be read soon. A later read tells whether they
        have to be written again."""
        if self._map.owners.unread and self._clock.monotonic() >= self._proof_until:
            self._map.owners.take_as_read()
            self._check_at = self._clock.monotonic()
            self._write_waiting(failed=False)

    def due_in_s(self) -> float:
        """Return the seconds until `poll` has something to do."""
        if self._syncs is None:
            return math.inf
        due = self._syncs.due_in_s()
        return min(due, _PROOF_LOOK_S) if self._map.owners.unread else due

    def prepare(self, reached: Sequence[Reached]) -> Future[list[StoredOffset]]:
        """Return the source offsets of these partitions, once the map pages that cover them are
        written."""
        self._notice_standstill()
        self._take_read()
        self._check()
        if self._clock.monotonic() >= self._hold_until:
            self._map.release()  # The topic may not even exist before something is written.
        for source, position, log_start, _ in reached:
            self._map.source_begins(source, log_start)
            self._map.seen(source, position)
        alias = self._config.source_cluster_alias
        offsets: list[StoredOffset] = [
            (source_partition(alias, source), {"offset": position - 1})
            for source, position, *_ in reached
        ]
        result: Future[list[StoredOffset]] = Future()
        self._write_pages(reached, lambda: result.set_result(offsets))
        return result

    def _write_pages(
        self, reached: Sequence[Reached], then: Callable[[], None] = lambda: None
    ) -> None:
        """Write the due pages, then call `then`, even after a failure: until the pages are written
        translation is less exact, but not storing offsets would cost more."""
        if self._syncs is None:
            then()
            return
        if self._stood_still:
            self._waiting.append((reached, then))
            return
        keys = [each.source for each in reached]
        owners = self._map.due_owners(keys)
        if self.takes_over:
            self._waiting.append((reached, then))
            if owners:
                repairs = self._map.due_repairs(owners)
                repaired = [record for each in repairs for record in each.records()]
                notes = [
                    (note_key(Note.OWNER, key), each.encode())
                    for key, found in owners.items()
                    for each in found
                ]
                noted = self._syncs.write_pages([*repaired, *notes])
                noted.add_done_callback(lambda future: self._taken_over(future, owners, repairs))
            return
        facts = self._facts_of(reached)
        due = self._map.due(keys)
        records = [record for each in due for record in each.records()]
        useless = [
            (key, None)
            for each in reached
            if not self._map.owners.lost(each.source)
            for key in self._map.useless(each.source, each.log_start)
        ]
        written = self._syncs.write_pages([*records, *facts, *useless])
        written.add_done_callback(lambda future: self._written(future, due, then))

    def _taken_over(
        self,
        future: Future[None],
        owners: Mapping[TopicPartition, Sequence[Owner]],
        repairs: Sequence[DuePages],
    ) -> None:
        """Read the notes of the owner that were written: another task may have done the same at the
        same moment, and then its note counts. Notes that could not be written are due again with
        the next commit, and so are their pages."""
        failed = future.exception(timeout=0) is not None
        self._map.written(repairs)
        if failed:
            self._map.failed(repairs)
        self._map.owners.taken(owners, written=not failed)
        if self._map.owners.taking:
            return
        if self._topics is None:
            self._map.owners.take_as_read()  # It is closed.
        self._proof_until = self._clock.monotonic() + _PROOF_S
        if self._map.owners.unread:
            self._check()
        else:
            self._write_waiting(failed)

    @property
    def takes_over(self) -> bool:
        """Whether pages wait until the topic shows that this task owns their partitions."""
        return self._map.owners.taking or self._map.owners.unread

    def _write_waiting(self, failed: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for reached, then in waiting:
            if failed:
                then()
            else:
                self._write_pages(reached, then)

    def _facts_of(self, reached: Iterable[Reached]) -> list[tuple[bytes, bytes | None]]:
        """Return the facts to store. While the topic is read only those that replace this task's
        own: the others are not to be mixed up with those of an earlier task. A partition that
        leaves when the assignment changes, as the topic is read again, has facts to the end."""
        if not self._config.mirror_offset_map_enabled:
            return []
        known = {each.source: each.facts for each in reached if each.facts is not None}
        left_out = set() if self.facts() is not None else known.keys() - self._own_facts
        self._without_facts = self._without_facts - known.keys() | left_out
        written = [key for key in known if key not in left_out and not self._map.owners.lost(key)]
        self._own_facts.update(written)
        return [(note_key(Note.FACTS, key), known[key].encode()) for key in written]

    def _written(
        self, future: Future[None], due: Sequence[DuePages], then: Callable[[], None]
    ) -> None:
        self._map.written(due)
        if future.exception(timeout=0) is not None:
            self._map.failed(due)
        then()

    def committed(self) -> None:
        """Note that the offsets of the last `prepare` are stored. Idle partitions get an exact sync
        now."""
        if self._syncs is None:
            return
        for key, rule in self._rules.items():
            delayed = rule.take_delayed()
            if delayed is not None and not self._map.owners.lost(key):
                self._syncs.sync(key, delayed)
        self._syncs.flush_syncs()

    def forget(self, key: TopicPartition) -> None:
        """Drop a partition that left and whose state is stored."""
        self._rules.pop(key, None)
        self._own_facts.discard(key)
        self._map.forget(key)

    def close(self) -> None:
        """Send what waits, within seconds, and close every client."""
        self._looks_again = False
        if self._reader is not None and (self._map.waits_for_read or self._map.owners.unread):
            # A task that ran for a moment only: its pages wait for their session or their owner.
            self._reader.wait(_CLOSE_READ_S)
            self._take_read()
            self._map.release()
            self._write_pages(())
        self._topics = None
        self._close_reader()
        if self._syncs is not None:
            self._map.owners.take_as_read()
            self._write_waiting(failed=False)
            self._syncs.close(Deadline(_CLOSE_SYNCS_S, self._clock))
            self._syncs = None
            self._write_waiting(failed=True)
