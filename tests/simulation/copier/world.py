"""One run: the real copy engine between two simulated clusters, with troubles, until all is copied.

The run has two parts. In the first, writers write and troubles occur. In the second, everything is
healed, and the copier has to copy the rest in time. The oracle looks after every step.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from uuid import UUID

from connect.errors import ConnectError
from connectors.mirror.config.losses import Loss, LossPolicies
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.quarantine import QuarantinedRecords
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.simulation.copier.flights import Flights
from tests.simulation.copier.oracle import Oracle
from tests.simulation.copier.outage import Outage
from tests.simulation.copier.pair_oracle import Broken, PairOracle
from tests.simulation.copier.plan import Plan
from tests.simulation.copier.status_oracle import StatusOracle
from tests.simulation.copier.trouble import Troubles
from tests.simulation.copier.worker import OFFSETS, SOURCE, TARGET, Stored, Worker, WorkerEvents
from tests.simulation.copier.writer import SourceWriter
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import Coordinator
from tests.simulation.kafka.log import Batch
from tests.simulation.kafka.network import Network, ProcessDied
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.kafka.virtual_time import VirtualTime
from tests.simulation.kafka.writing import numbers_of
from tests.support.copier import partition_invariants

__all__ = ["CopierWorld"]

Key = tuple[str, int]

_STEP_S = 0.1
_HEALED_FOR_S = 150.0
_DRAIN_S = 60.0
_SETTLE_S = 3.0
_MARKERS_S = 1.0
"""Within this time the markers of the last transaction are written."""
_IDLE_WAIT_S = 0.5
_OLDEST_METADATA_S = 8.0
_OLDEST_ANSWER_S = 1.0
_MOST_HISTORY = 400
_OWN_DEFECT = "a bug in the copier"
"""Part of a partition's error after a broken invariant."""


class CopierWorld:
    """See the module. `run` raises `Broken`."""

    def __init__(self, plan: Plan, *, in_detail: bool = False) -> None:
        """`in_detail`: the history names every batch."""
        self.plan = plan
        self._in_detail = in_detail
        random.seed(plan.seed)  # the jitter of the product's backoffs
        self.rng = random.Random(plan.seed * 7919 + 1)
        self.time = VirtualTime()
        self.story: deque[str] = deque(maxlen=_MOST_HISTORY)
        network = self.network = Network(self.time, self.rng)
        self.source = Cluster("source", network, self.rng, plan.source_brokers, self.note)
        self.target = Cluster(
            "target",
            network,
            self.rng,
            plan.target_brokers,
            self.note,
            names_old_duplicates=plan.names_old_duplicates,
        )
        self.source.fetches_by_id = plan.seed % 4 != 0
        for cluster, side in ((self.source, plan.source), (self.target, plan.target)):
            cluster.faults, cluster.connections = side.requests, side.network
        self.writers = {
            (SOURCE, n): SourceWriter(self.source, (SOURCE, n), plan)
            for n in range(plan.partitions + plan.grows_by)
        }
        self.partitions = plan.partitions
        """Of the source's topic now."""
        self.source.create(SOURCE, self.partitions)
        self.target.create(TARGET, self.partitions)
        self.oracle = Oracle(
            self.source,
            self.target,
            {
                (TARGET, n): PairOracle(
                    f"{SOURCE}-{n}", writer.truth, read_committed=plan.read_committed
                )
                for (_, n), writer in self.writers.items()
            },
            exactly_once=plan.exactly_once,
        )
        self.flights = Flights()
        network.on_sent = self.flights.sent
        self.target.on_answered = self.flights.answered
        self.target.on_truncating = self._target_loses
        self.target.on_truncated = self._target_cut_off
        self.source.on_truncated = self._source_cut_off
        self.target.on_appended = self._target_appended
        self.target.refuses_records = self._refuses if plan.quarantine else None
        self.bad_every = 0
        coordinator = None
        if plan.exactly_once:
            self.target.create(OFFSETS, 2)
            coordinator = Coordinator(self.target)
            coordinator.faults = plan.coordinator
            coordinator.on_ended = self._transaction_ended
        self.coordinator = coordinator
        self._commits = 0
        self._broken: Broken | None = None
        self._forgotten: set[Key] = set()
        self._known_producers: frozenset[int] = frozenset()
        """Those of the target's log that is being cut off."""
        self._traps: dict[Key, Callable[[], None]] = {}
        self._seen_cuts: dict[Key, int] = {}
        """How often each log had been cut off when the copier last asked where an epoch of it ends.
        Where its log begins and ends is asked for other reasons, too."""
        self._found: dict[Key, deque[int]] = {}
        """The same for each loss, when the copier found it."""
        self._stands: dict[PartitionCopy, int] = {}
        """Partitions that stopped after a loss, and where."""
        self._losses: list[tuple[Key, Loss, int]] = []
        """Reported losses that the oracle has not heard of, with how often the log had been cut off
        when they were found."""
        self._commands: deque[tuple[str, FlowLimits | None]] = deque()
        self._paused_until = 0.0
        self._crashing = False
        self._away: list[Key] = []
        self.worker = Worker(
            plan,
            network,
            self.source,
            self.target,
            coordinator,
            self if plan.quarantine else None,
            WorkerEvents(
                self._acked,
                self._lost,
                self._quarantined,
                self._begins,
                self._life,
                self._cuts,
                self._looked,
                self._loss_found,
            ),
        )
        self.healed = False
        self._told: Counter[PartitionCopy] = Counter()
        """How many records the copier said to be on the target."""
        self._status = StatusOracle(self.time, self._copied_for_good, self._something_waits)
        self._limited = False
        self._troubles = Troubles(self)

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.story.append(f"{self.time.monotonic() - 100:9.4f} {text}")

    # The run.

    def run(self) -> None:
        """Raises Broken, or what the engine raises."""
        plan = self.plan
        for key in self.writers:
            if self.rng.random() < 0.5:
                for _ in range(plan.batches // 3):
                    self.writers[key].write()
            self._write_now_and_then(key)
        self._trouble_now_and_then()
        if plan.late_answer:
            self._troubles.answer_late()
        if plan.outage is not None:
            self.time.after(2 * self.rng.random(), Outage(self, plan.outage).begin)
        self.time.after(plan.trouble_for_s, self._heal)
        self._start()
        store_at = 0.0
        while not self.healed:
            self._step()
            if self.time.monotonic() >= store_at:
                store_at = self.time.monotonic() + plan.store_every_s * (0.5 + self.rng.random())
                self._store()
        self._finish()

    def _step(self, seconds: float = _STEP_S) -> None:
        worker = self.worker
        try:
            self._obey()
            if worker.engine is None:
                self._start()
            worker.step(seconds)
        except ProcessDied:
            self._died()
        except ConnectError as error:
            if not self._may_fail(error):
                raise
            self.note(f"the task fails: {error}")
            worker.close()
            self._wait(0.6)
        self._check()

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self.flights.broken is not None:
            raise self.flights.broken
        self.oracle.read_all()
        if self._commits:
            self._commits = 0
            self.oracle.check_commit()
        self._take_losses()
        if not self.plan.exactly_once:
            self.oracle.check_copied_again(self.worker.stored)
        engine = self.worker.engine
        if engine is not None:
            self.oracle.check_positions(engine.partitions)
            if not self._limited:
                self._status.look(engine)
            for partition in engine.partitions:
                partition_invariants.check(partition)
                if partition.standing:
                    self._check_stands(partition)
                if partition.error is not None and _OWN_DEFECT in partition.error:
                    raise Broken(partition.error)

    def _check_stands(self, partition: PartitionCopy) -> None:
        """A partition that stopped after a loss fetches nothing more."""
        before = self._stands.setdefault(partition, partition.position)
        if partition.position > before:
            raise Broken(f"{partition.name} went on from {before}, though: {partition.standing}")

    @staticmethod
    def _may_fail(error: ConnectError) -> bool:
        """Whether a task may end so: another producer has its transactional id, or its
        transaction took too long."""
        return type(error).__name__ == "ProducerFenced"

    def _start(self) -> None:
        self._check()
        self.note("the copier starts")
        self._status.reset()
        self._limited = False
        self.worker.start()
        if self.rng.random() < 0.2 and self.worker.engine is not None:
            self.worker.engine.limit(NO_LIMITS, 1.0)

    def _store(self) -> None:
        engine = self.worker.engine
        if engine is None:
            return
        if self.plan.exactly_once:
            if self.rng.random() < 0.3:
                engine.request_commit()
            return
        self.worker.store()
        self.oracle.check_stored(self.worker.stored)

    def _wait(self, seconds: float) -> None:
        """The world goes on while nothing of ours runs."""
        self.time.run_until(self.time.monotonic() + seconds)

    # Commands to the copier, between two of its steps.

    def command(self, name: str, limits: FlowLimits | None = None) -> None:
        self._commands.append((name, limits))

    def crash_soon(self) -> None:
        """The process dies at one of its next reads or writes, or between two steps."""
        self.note("the copier is about to be killed")
        self._crashing = True
        self.network.interrupt_after = self.rng.randrange(12)

    def _obey(self) -> None:
        engine = self.worker.engine
        if engine is not None and self._paused_until and self.time.monotonic() > self._paused_until:
            self._paused_until = 0.0
            engine.set_fetching(True)
        while self._commands:
            name, limits = self._commands.popleft()
            if self.worker.engine is not None:
                self._obey_one(name, limits)

    def _obey_one(self, name: str, limits: FlowLimits | None) -> None:
        engine = self.worker.engine
        assert engine is not None
        self.note(f"the copier: {name}")
        if name == "restart":
            self._paused_until = 0.0
            self.worker.stop(1.0 + 4.0 * self.rng.random())
            self._wait(0.6)
        elif name == "freeze":
            self._wait(self.rng.choice((0.3, 2.0, 9.0)) * self.rng.random())
        elif name == "pause":
            engine.set_fetching(False)
            self._paused_until = self.time.monotonic() + self.rng.random()
        elif name == "limit" and limits is not None:
            self._status.reset()
            self._limited = limits is not NO_LIMITS
            engine.limit(limits, 1.0)
        elif name == "commit":
            engine.request_commit()
        elif name == "grow":
            self._grow()
        elif name == "reassign" and not self.plan.exactly_once:
            self._reassign()

    def _grow(self) -> None:
        """The source's topic has another partition; the copier is given it once the copy has it,
        too."""
        for key in list(self.writers)[self.partitions - 1 :][1:2]:
            if SOURCE in self.source.topics and TARGET in self.target.topics:
                self.note(f"the source has another partition, {key[1]}")
                self.partitions += 1
                self.source.grow(SOURCE)
                self.target.grow(TARGET)
                self._write_now_and_then(key)
                self.worker.give_back(key)

    def _reassign(self) -> None:
        if self._away and self.rng.random() < 0.7:
            self.worker.give_back(self._away.pop())
        elif self.worker.assigned:
            key = self.rng.choice(sorted(self.worker.assigned))
            self._away.append(key)
            self.worker.take_away(key)

    def _died(self) -> None:
        self.note("the copier is killed")
        self._take_losses()
        self._crashing = False
        self._paused_until = 0.0
        self.worker.kill()
        self._wait(0.6 + self.rng.random())

    # Writers and troubles, as events of the world.

    def _write_now_and_then(self, key: Key) -> None:
        pause = self.plan.trouble_for_s / self.plan.batches * 2 * self.rng.random()

        def write() -> None:
            if not self.healed:
                self.writers[key].write()
                self._write_now_and_then(key)

        self.time.after(pause, write)

    def _copied_for_good(self, partition: PartitionCopy) -> int:
        """Exactly once nothing is before the copier was told that it is committed. A loss moves it
        on and copies nothing."""
        if self.plan.exactly_once:
            return self._told[partition]
        return partition.acked_position - partition.lost_records

    def _something_waits(self, partition: PartitionCopy) -> bool:
        """Whether the source has something to copy of this partition."""
        found = self.source.find(partition.source)
        pair = self.oracle.of_source(partition.source)
        if found is None or pair.settled_life != pair.truth.life:
            return False
        end = found.log.stable if self.plan.read_committed else found.log.high
        if self.plan.exactly_once:
            return pair.lacks_newest(end)
        return end > partition.acked_position

    def _trouble_now_and_then(self) -> None:
        def cause() -> None:
            if not self.healed:
                self._troubles.one()
                self._trouble_now_and_then()

        self.time.after(2 * self.plan.trouble_every_s * self.rng.random(), cause)

    # Topics that are deleted and created again, and logs that are cut off.

    def source_is_deleted(self) -> None:
        engine = self.worker.engine
        for key, writer in self.writers.items():
            pair = self.oracle.of_source(key)
            self.oracle.read((TARGET, key[1]))
            copied = 0 if engine is None else self._acked_position(key)
            pair.recreations_due += 1
            pair.recent_recreations += 1
            self.time.after(_OLDEST_METADATA_S, partial(_grow_old, pair))
            pair.recreation_to_tell = pair.recreation_to_tell or copied > 0
            writer.begun_anew()
            found = self._copied(key)
            if found is not None and found.source_topic_id is None:
                pair.begun_anew(found.acked_position)

    def _copied(self, key: Key) -> PartitionCopy | None:
        engine = self.worker.engine
        found = () if engine is None else engine.partitions
        return next((p for p in found if p.source == key), None)

    def _acked_position(self, key: Key) -> int:
        found = self._copied(key)
        return 0 if found is None else found.acked_position

    def source_log_starts(self, key: Key, start: int) -> None:
        """Retention deleted everything before."""
        found, stored = self._copied(key), self.worker.stored.get(key)
        position = 0 if stored is None else stored.position
        if found is not None:
            position = max(position, found.position)
        pair = self.oracle.of_source(key)
        pair.deleted_before(start, position)
        if stored is not None and stored.cuts != pair.cuts:
            # The next copier begins there again if this one ends before it has stored another.
            pair.deleted_unseen(start, stored.position)

    def create_source(self) -> None:
        if SOURCE not in self.source.topics:
            self.note("source: the topic is created again")
            self.source.create(SOURCE, self.partitions)

    def target_is_deleted(self) -> None:
        self.oracle.recreated()
        for _, number in self.writers:
            pair = self.oracle.of_target((TARGET, number))
            pair.recent_target_recreations += 1
            self.time.after(_OLDEST_METADATA_S, partial(_grow_old_on_target, pair))

    def producers_forgotten(self, key: Key) -> None:
        self.oracle.of_target(key).producer_forgotten()
        self._forgotten.add(key)

    def _target_loses(self, partition: SimulatedPartition) -> None:
        self.oracle.loses(partition.key)
        self._known_producers = partition.log.producers.ids

    def _target_cut_off(self, partition: SimulatedPartition, end: int, lost: bool) -> None:
        self.oracle.cut_off(partition, end, lost)
        if lost and self._known_producers - partition.log.producers.ids:
            # What is in flight, and follows a batch that was refused, is taken by the new leader.
            self.producers_forgotten(partition.key)

    def create_target(self) -> None:
        if TARGET not in self.target.topics:
            self.note("target: the topic is created again")
            self.oracle.forgive()
            self.target.create(TARGET, self.partitions)

    def _source_cut_off(self, partition: SimulatedPartition, end: int, lost: bool) -> None:
        self.writers[partition.key].cut_off(end)
        pair = self.oracle.of_source(partition.key)
        pair.suspended = True
        pair.cuts += 1

    def after_append(self, key: Key, act: Callable[[], None]) -> None:
        """Do this once the next batch is in this log of the target, before the broker answers."""
        self._traps[key] = act

    def _target_appended(self, partition: SimulatedPartition, batch: Batch) -> None:
        trap = self._traps.pop(partition.key, None)
        if trap is not None and not self.healed:
            trap()
        if partition.topic == OFFSETS:
            self.oracle.note_lives()
        elif partition.key in self._forgotten:
            self._forgotten.discard(partition.key)
            pair = self.oracle.of_target(partition.key)
            self.time.after(_OLDEST_ANSWER_S, partial(pair.remembered, pair.forgotten))
        if not self._in_detail:
            return
        what = numbers_of(batch.data) if partition.topic == TARGET else ()
        self.note(
            f"target {partition.key}: producer {batch.producer}/{batch.producer_epoch} sequence "
            f"{batch.sequence}+{batch.count} at {batch.base}: {_span(what)}"
        )

    def _refuses(self, key: Key, data: bytes) -> bool:
        if not self.bad_every or key[0] != TARGET:
            return False
        return any(number % self.bad_every == 0 for number in numbers_of(data))

    # What the engine tells.

    def _guard(self, broken: Broken) -> None:
        self._broken = self._broken or broken

    def _acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        self._told[partition] += sum(count for _, count in runs)
        if self._in_detail:
            self.note(f"told: {partition.name} {runs} acknowledged at {base}")
        try:
            self.oracle.acked(partition, runs, base)
        except Broken as broken:
            self._guard(broken)

    def _lost(self, partition: PartitionCopy, loss: Loss) -> None:
        self.note(f"told: {loss}")
        self.worker.commit_soon()
        copy = self.target.find(partition.target)
        end = 0 if copy is None else copy.log.end
        if loss.resume is not None:
            self._status.told_of_loss(partition)
            self.oracle.read(partition.target)
            self.oracle.of_source(partition.source).goes_back(loss.resume, end)
        found = self._found[partition.source].popleft()
        self._losses.append((partition.source, loss, found))
        if self.plan.exactly_once:
            # Markers come after the commit's answer: what was copied before this is seen later.
            self.oracle.hold(partition.target, end)
        else:
            self._take_losses()

    def _take_losses(self) -> None:
        """Under exactly-once after the commit is checked in which they are told, and once all that
        was copied before can be seen."""
        losses, self._losses = self._losses, []
        for key, loss, found in losses:
            pair = self.oracle.of_source(key)
            waits = any(key == other for other, _, _ in self._losses)
            if waits or not self.oracle.released((TARGET, key[1])):
                self._losses.append((key, loss, found))
                continue
            try:
                pair.loss_reported(loss)
            except Broken as broken:
                self._guard(broken)
            if found != pair.cuts:
                # It was cut off again after the copier looked at it. Under exactly-once a loss is
                # told with a commit, which may be long after it was found.
                pair.suspended = True

    def _looked(self, key: Key) -> None:
        """The source has answered where an epoch of a log ends."""
        self._seen_cuts[key] = self.oracle.of_source(key).cuts

    def _loss_found(self, key: Key) -> None:
        self._found.setdefault(key, deque()).append(self._seen_cuts.get(key, 0))

    def _quarantined(self, partition: PartitionCopy, aside: QuarantinedRecords) -> None:
        self.note(f"put aside: {partition.source} {aside.first} to {aside.last}: {aside.reason}")
        self.oracle.of_source(partition.source).excuse(aside.first, aside.last + 1)

    def put(self, aside: QuarantinedRecords) -> Future[None]:
        """The quarantine, as the copier calls it."""
        done: Future[None] = Future()

        def answer() -> None:
            if self.rng.random() < 0.1 and not self.healed:
                done.set_exception(ConnectError("simulated: the quarantine is not reachable"))
            else:
                done.set_result(None)

        self.time.after(0.2 * self.rng.random(), answer)
        return done

    def _begins(self, key: Key, stored: Stored | None) -> None:
        self._take_losses()
        pair = self.oracle.of_source(key)
        self._found.pop(key, None)
        self.note(f"begins with {key} at {stored.position if stored else 'no position'}")
        if stored is None:
            pair.begins_without_position()
            return
        facts = stored.facts
        knows_topic = facts is not None and facts.source_topic_id is not None
        pair.begins_at(stored.position, stored.life, knows_topic=knows_topic)
        # Each other topic of the name can be told once: metadata may be old, but not the copier's
        # memory of the topics it has seen go.
        if facts is not None and facts.target_topic_id is not None:
            known = {facts.target_topic_id, *facts.former_target_ids}
            pair.target_recreations_due = self._others(self.target, TARGET, known)
        if facts is not None and facts.source_topic_id is not None:
            known = {facts.source_topic_id, *facts.former_source_ids}
            pair.recreations_due = self._others(self.source, SOURCE, known)
        if stored.cuts != pair.cuts:
            pair.suspended = True

    @staticmethod
    def _others(cluster: Cluster, topic: str, known: set[UUID]) -> int:
        others = sum(each not in known for each in cluster.ids[topic])
        return others if topic in cluster.topics else others + 1

    def _life(self, key: Key) -> int:
        return self.oracle.of_source(key).settled_life

    def _cuts(self, key: Key) -> int:
        pair = self.oracle.of_source(key)
        return -1 if pair.suspended else pair.cuts

    def _transaction_ended(self, commit: bool) -> None:
        if commit:
            self._commits += 1

    # The end.

    def _heal(self) -> None:
        self.note("everything is healed")
        self.healed = True
        self.network.interrupt_after = None
        self._commands.clear()
        self._paused_until = 0.0
        self.bad_every = 0
        self.create_source()
        self.create_target()
        for cluster in (self.source, self.target):
            cluster.heal()
        for side in (self.plan.source, self.plan.target):
            faults = side.access
            faults.stale = faults.unavailable = faults.connect = faults.question = 0.0
            faults.without_topic = faults.without_leader = 0.0
        for partition in self.target.partitions:
            partition.max_message_bytes = 1 << 20
        if self.coordinator is not None:
            self.coordinator.heal()
        for writer in self.writers.values():
            writer.end_all()
            writer.write()
            writer.end_all()

    def _unhand_the_copier(self) -> None:
        """Nothing is asked of the copier any more but to copy everything."""
        if self.worker.engine is None:
            self._start()
        engine = self.worker.engine
        assert engine is not None
        engine.set_fetching(True)
        engine.limit(NO_LIMITS, 1.0)
        self._status.reset()
        self._limited = False
        for key in self._away:
            self.worker.give_back(key)
        self._away = []
        if self.plan.stops:
            # The user chooses another policy, which restarts the task.
            self.worker.losses = LossPolicies(self.plan.losses.default)
            self.command("restart")

    def _finish(self) -> None:
        self._unhand_the_copier()
        deadline = self.time.monotonic() + _HEALED_FOR_S
        while not self._caught_up():
            self._step()
            if self.time.monotonic() > deadline:
                raise Broken(self._stuck())
        # Nothing happens any more but what the copier does by its clocks: asking often for records
        # that do not come would be most of the run's work.
        self.source.shortest_wait_s = _IDLE_WAIT_S
        settled_at = self.time.monotonic() + _SETTLE_S
        if any("recreated" in name or "unclean" in name for name in self.plan.troubles):
            settled_at += self.plan.metadata_max_age_ms / 1000
        while self.time.monotonic() < settled_at:
            self._step(_IDLE_WAIT_S)
        while not self._caught_up():
            self._step()
            if self.time.monotonic() > deadline:
                raise Broken(self._stuck())
        engine = self.worker.engine
        if engine is None:
            raise Broken("the task ended though nothing was wrong any more")
        # A connection that fell silent is found by the request that is sent on it next.
        until = self.time.monotonic() + _DRAIN_S
        while (says := self._says()) is not None:
            self._step()
            if self.time.monotonic() > until:
                raise Broken(f"all is copied, and yet {says}")
        if not self.worker.stop(_DRAIN_S):
            raise Broken("drain did not end in time")
        self._wait(_MARKERS_S)
        self._check()
        if self.plan.exactly_once:
            self.oracle.check_commit()
        else:
            self.oracle.check_stored(self.worker.stored)
        self.oracle.check_complete()

    def _says(self) -> str | None:
        """What a partition says to be wrong, that does not stand still."""
        engine = self.worker.engine
        for partition in () if engine is None else engine.partitions:
            if partition.error is not None and not partition.standing:
                return f"{partition.source} says: {partition.error}"
        return None

    def _caught_up(self) -> bool:
        engine = self.worker.engine
        if engine is None or len(engine.partitions) < self.partitions:
            return False
        for partition in engine.partitions:
            log = self.source.topics[SOURCE].partitions[partition.source[1]].log
            end = log.stable if self.plan.read_committed else log.high
            if partition.acked_position != end and not partition.standing:
                return False
            if self.plan.exactly_once and partition.unstored:
                return False  # its transaction may still be aborted
        return True

    def _stuck(self) -> str:
        engine = self.worker.engine
        assert engine is not None
        said = []
        for partition in engine.partitions:
            log = self.source.topics[SOURCE].partitions[partition.source[1]].log
            said.append(
                f"{partition.source} is at {partition.acked_position} of {log.high}, "
                f"{partition.state.value}, {partition.error or 'no error'}"
            )
        return "not all is copied in the end: " + "; ".join(said)


def _grow_old(pair: PairOracle) -> None:
    pair.recent_recreations -= 1


def _grow_old_on_target(pair: PairOracle) -> None:
    pair.recent_target_recreations -= 1


def _span(numbers: Sequence[int]) -> str:
    return f"records {numbers[0]} to {numbers[-1]}" if numbers else "offsets"
