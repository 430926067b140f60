"""The batch copier: copies partitions of one cluster to another, on one thread.

`CopyEngine` owns the loop, the partitions and the broker nodes (`dispatcher.py`). Its owner calls
`step` repeatedly from one thread; only `wake`, `health` and `figures` may be called from others.
The owner's `CopyListener` receives acknowledged ranges, in source order per partition.

    fetch response -> read headers -> next fetch sent -> choose ways -> queues -> produce requests
    produce response -> acknowledged in order -> listener; or a recovery (produce_handler.py)

A failed partition does not affect others: it is left out of fetches until it can continue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future
from dataclasses import replace
from uuid import UUID

from connect.clock import Deadline
from connect.metrics.engine_metrics import ClientFigures, SideFigures
from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.copy.batches.transformed import ChangeRecord
from connectors.mirror.copy.context import (
    CopyContext,
    CopyListener,
    EngineEnvironment,
    Left,
    Located,
)
from connectors.mirror.copy.dispatcher import Dispatcher
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy
from connectors.mirror.copy.positions.tail_checks import TailLookup
from connectors.mirror.copy.quarantine import Quarantine
from connectors.mirror.copy.settings import EngineSettings, TransactionPlan
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity

__all__ = ["CopyEngine"]


class CopyEngine:
    """Copies partitions of one cluster to another. Only `wake`, `health` and `figures` are
    thread-safe."""

    def __init__(
        self,
        settings: EngineSettings,
        listener: CopyListener,
        environment: EngineEnvironment | None = None,
        *,
        transactions: TransactionPlan | None = None,
        quarantine: Quarantine | None = None,
        tails: TailLookup | None = None,
    ) -> None:
        """`transactions`: write exactly once. `quarantine`: takes records that cannot be copied;
        None: their partitions wait. `tails`: finds records that a crash left on the target, so that
        they are not copied again; None: they are copied again."""
        environment = environment or EngineEnvironment()
        self._context = CopyContext(settings, listener, environment, quarantine)
        self._dispatcher = Dispatcher(self._context, transactions, tails)
        self._partitions = self._context.partitions
        self._routing = self._dispatcher.routing
        self._transactions = self._dispatcher.transactions
        self._offsets_topics: set[str] = set()
        if transactions is not None:
            self._offsets_topics.add(transactions.control.offsets_topic)

    # Methods for the owner.

    @property
    def partitions(self) -> Collection[PartitionCopy]:
        """Return the assigned partitions, in no particular order."""
        return self._partitions.values()

    @property
    def watched(self) -> Iterable[PartitionCopy]:
        """Return all assigned partitions that may have an error or a lag. From any thread."""
        return self._dispatcher.watched

    def figures(self) -> ClientFigures:
        """Return what the engine's clients use and how fast brokers answer. From any thread."""
        context, routing = self._context, self._routing
        now_ms = int(context.loop.now() * 1000)
        return ClientFigures(
            context.budget.used,
            context.budget.limit,
            SideFigures.of(list(routing.sources.values()), context.fetch_ms.summary(now_ms)[2]),
            SideFigures.of(list(routing.targets.values()), context.produce_ms.summary(now_ms)[2]),
        )

    @property
    def fetching(self) -> bool:
        return self._context.fetching

    def take_departed(self) -> list[PartitionCopy]:
        """Return the partitions that left since the last call. Their acknowledged positions are
        final."""
        departed, self._dispatcher.departed = self._dispatcher.departed, []
        return departed

    def add(
        self,
        source: TopicPartition,
        target: TopicPartition,
        position: int | None,
        metrics: PartitionMetrics,
        end: int | None = None,
        *,
        learns: bool = False,
        change: ChangeRecord | None = None,
    ) -> PartitionCopy:
        """Begin to copy a partition. `position`: the first source offset to copy, which counts as
        stored (see `stored`); None: where auto.offset.reset says. `end`: the first that is not to
        be copied; None: there is none. Not for a partition that `keep` could keep. `learns`: it is
        not fetched before `learn`, or, where no position is given, `begin`. `change`: the
        transformation of each record."""
        partition = PartitionCopy(
            source=source, target=target, metrics=metrics, end=end, change=change
        )
        self._partitions[source] = partition
        self._context.touched[partition] = None
        self._dispatcher.producers.equip(partition)
        partition.learning = learns
        if position is not None:
            partition.begin_at(position)
            partition.stored(position)
        elif learns:
            partition.is_new = True
        else:
            self._dispatcher.starts.locate(partition)
        return partition

    def begin(self, source: TopicPartition, position: int | None, topic_id: UUID | None) -> None:
        """Start a partition that was added without a position. `position`: its earlier start
        position, in the topic with this ID; None: it was never started."""
        partition = self._partitions.get(source)
        if partition is None:
            return
        partition.learning = False
        if position is None:
            self._dispatcher.starts.locate(partition)
            return
        partition.relocate(position)
        partition.source_topic_id = topic_id
        if self._dispatcher.tails is not None:
            # Every copy before a crash stored its start position first, so the target's log starts
            # with it.
            partition.target_end = 0
            partition.tail_start = (position, 0)
        self._context.post(Located(partition))
        self._dispatcher.drain()

    def let_copy(self, sources: Iterable[TopicPartition]) -> None:
        """Start fetching these partitions. Their start positions are stored, or cannot be stored
        for now."""
        for source in sources:
            partition = self._partitions.get(source)
            if partition is not None:
                partition.start_unsaved = False
                self._context.mark(partition)
        self._dispatcher.drain()

    def stored(self, partition: PartitionCopy, position: int) -> None:
        """Record that this position of a partition, assigned or departed, is stored as its source
        offset."""
        behind = partition.behind_stored
        partition.stored(position)
        if behind and self._partitions.get(partition.source) is partition:
            self._context.mark(partition)
            self._dispatcher.drain()

    def was_begun_before(self, source: TopicPartition, position: int, begun: int) -> None:
        """Handle an earlier start position that was found for a partition that started at
        `begun`."""
        partition = self._partitions.get(source)
        if partition is not None and not partition.leaving:
            self._dispatcher.starts.was_begun_before(partition, position, begun)
            self._dispatcher.drain()

    def learn(self, source: TopicPartition, facts: LogIdentity | None) -> None:
        """Set the facts about the logs that were stored with the partition's position; None: there
        are none, or reading them takes too long. The partition is fetched from now on."""
        partition = self._partitions.get(source)
        if partition is None:
            return
        partition.learning = False
        if facts is not None:
            partition.learn(facts)
        self._dispatcher.follow(partition)
        self._dispatcher.drain()

    def watch(self, others: Iterable[tuple[str, str]] = ()) -> None:
        """Request metadata of the partitions' topics from both clusters. Call after `add` and
        `remove`. `others`: (source topic, target topic) pairs that may be needed again soon."""
        sources = {p.source[0] for p in self._partitions.values()}
        targets = {p.target[0] for p in self._partitions.values()}
        for source, target in others:
            sources.add(source)
            targets.add(target)
        self._context.source.watch_topics(sources)
        self._context.target.watch_topics(targets | self._offsets_topics)
        self._context.metadata_changed()

    def keep(self, source: TopicPartition) -> bool:
        """Continue with a partition of this engine, even if `remove` was called and it has not left
        yet. Returns False if the engine does not have it."""
        partition = self._partitions.get(source)
        if partition is None:
            return False
        if partition.leaving:
            partition.leaving = False
            self._dispatcher.starts.forget(partition)
            # A loss that was found while it was leaving must be found again.
            partition.source_checked = partition.target_checked = UNKNOWN
            partition.halted = False
            if partition.position == UNKNOWN and not partition.learning:
                self._dispatcher.starts.locate(partition)
            self._dispatcher.follow(partition)
            self._dispatcher.drain()
        return True

    def remove(self, source: TopicPartition) -> None:
        """Stop copying a partition. `take_departed` returns it once its sent batches are
        answered."""
        partition = self._partitions.get(source)
        if partition is None or partition.leaving:
            return
        partition.leaving = True
        if partition.position != UNKNOWN:
            partition.drop_unsent()
        self._context.mark(partition)
        if partition.may_leave:
            self._context.post(Left(partition))
        self._dispatcher.drain()

    def step(self, timeout: float) -> None:
        """Run one iteration of the loop. Waits at most `timeout` seconds."""
        # Also flush requests made since the last iteration, because nothing else would end the
        # wait.
        self._dispatcher.drain()
        self._routing.pump_sources()
        self._context.loop.turn(timeout)
        self._routing.pump_sources()
        if self._transactions is not None and self._transactions.failure is not None:
            raise self._transactions.failure

    def descriptor(self) -> int | None:
        """Return a file descriptor that is readable while `step` has work, also after `wake`; None
        if the system has none that another poller could watch."""
        return self._context.loop.descriptor()

    def due_in_s(self) -> float:
        """Return the seconds until `step` has work although the descriptor is not readable. Sends
        the requests made since the last step, because only their answers make it readable."""
        self._dispatcher.drain()
        self._routing.pump_sources()
        return self._context.loop.due_in_s()

    def wake(self) -> None:
        """Make a waiting `step` return. From any thread."""
        self._context.loop.wake()

    def set_fetching(self, on: bool) -> None:
        """Stop or resume fetching; batches already fetched are still produced."""
        self._context.fetching = on
        for node in self._routing.sources.values():
            node.paused = not on
        for partition in self._partitions.values():
            self._context.mark(partition)
        self._dispatcher.drain()
        self._routing.pump_sources()

    def limit(self, limits: FlowLimits, part: float) -> None:
        """Set the rate limits. `part`: this engine's share of the flow's limits."""
        counts = self._context.source.snapshot.partition_counts
        self._dispatcher.throttle.limit(limits, part, self._partitions.values(), counts)
        self._dispatcher.drain()

    def note_limits(self) -> None:
        """Update on each partition for how long limits have held it back. Otherwise this happens
        once a second."""
        self._dispatcher.throttle.look(self._partitions.values())

    def drain(self, deadline: Deadline) -> bool:
        """Stop fetching and wait for the outcome of all sent batches. Returns False after the
        deadline. Unsent batches are dropped and fetched again later. Does not wait for partitions
        whose batches the target surely rejected."""
        self.set_fetching(False)
        for partition in self._partitions.values():
            if partition.position != UNKNOWN:
                partition.drop_unsent()
        waiting = [p for p in self._partitions.values() if p.outcome_unknown]
        while waiting:
            if deadline.expired():
                return False
            self.step(min(0.1, deadline.remaining()))
            waiting = [p for p in waiting if p.outcome_unknown]
        if self._transactions is None:
            return True
        stored = self._transactions.request()
        while not stored.done() and not deadline.expired():
            self.step(min(0.1, deadline.remaining()))
        return stored.done()

    def request_commit(self) -> Future[None]:
        """Under exactly-once: commit soon all batches that are acknowledged now."""
        assert self._transactions is not None, "the engine does not write in transactions"
        return self._transactions.request()

    def renew_producer(self) -> None:
        """Under exactly-once: use the control's new producer. Only while there are no
        partitions."""
        assert self._transactions is not None, "the engine does not write in transactions"
        self._transactions.renew()

    def unhealthy(self) -> tuple[list[PartitionHealth], int]:
        """Return the partitions that make no progress, and how many there are in all. May be called
        from any thread."""
        if self._transactions is not None and self._transactions.trouble is not None:
            found = self.health()
            return [each for each in found if each.error is not None], len(found)
        now_ms = self._context.clock.now_ms()
        ill = [_health(each, now_ms) for each in self.watched if each.error is not None]
        return ill, len(self._partitions)

    def health(self) -> list[PartitionHealth]:
        """Return the health of each partition. May be called from any thread."""
        now_ms = self._context.clock.now_ms()
        found = [_health(partition, now_ms) for partition in tuple(self._partitions.values())]
        trouble = None if self._transactions is None else self._transactions.trouble
        if trouble is None:
            return found
        return [replace(each, error=each.error or trouble) for each in found]

    def close(self) -> None:
        """Close every connection and thread."""
        self._dispatcher.close()
        self._context.close()


def _health(partition: PartitionCopy, now_ms: int) -> PartitionHealth:
    return PartitionHealth(
        *partition.source,
        lag_records=partition.lag,
        lag_ms=partition.lag_ms(now_ms),
        error=partition.error,
        lag_bytes=partition.size.estimate(partition.lag),
        time_to_loss_ms=partition.metrics.time_to_loss_ms(),
        details={
            "state": "standing" if partition.standing else partition.state.value,
            "position": partition.acked_position,
            "high_watermark": partition.high_watermark,
            "log_start": partition.log_start_offset,
            "limited_by": partition.limited_by,
            "undecided": partition.undecided,
            "timestamps_ahead_ms": partition.metrics.timestamps_ahead_ms(now_ms),
            "lost_lately": partition.metrics.lost_lately(now_ms),
            "target": f"{partition.target[0]}-{partition.target[1]}",
        },
    )
