"""The world of consumer groups: offset syncs, offset map, translation, checkpoints, group sync.

The real classes run over internal topics in memory. The seed chooses what is produced, compacted,
lost and created again, which worker copies when and with which clock, when records of the internal
topics are delivered, and what groups do on both clusters. `oracle.py` says what must hold.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from random import Random

from connect.clients.groups.consumer_groups import Committed
from connect.clock import Deadline
from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.formats import Checkpoint, OffsetSync
from connectors.mirror.offsets import partition_pages
from connectors.mirror.offsets.map_notes import Note, parse_note_key
from connectors.mirror.offsets.offset_syncs import OffsetSyncRule
from connectors.mirror.offsets.translator import GroupOffset
from tests.simulation.groups.copier import TOPIC, Copier
from tests.simulation.groups.groups import GROUPS, CheckpointTask, Held, SourceSide, TargetSide
from tests.simulation.groups.logs import Partition, Source, Told
from tests.simulation.groups.oracle import Broken, check_place, skipped
from tests.simulation.groups.topics import Topics
from tests.simulation.mutants import replaced
from tests.simulation.outcome import Outcome
from tests.support.fake_clock import FakeClock

__all__ = ["run"]

_STEPS = 120
_PAGE_SEGMENTS = 3
"""Small pages, so that they are closed and trimmed within a run."""
_SOON = Deadline(60.0)


class World:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.history: list[str] = []
        self.topics = Topics()
        self.partitions = [Partition(0), Partition(1)]
        self.exactly_once = random.random() < 0.3
        policies = [LossPolicy.REPORT] * 3 + [LossPolicy.COPY, LossPolicy.FAIL]
        self.policies = LossPolicies(kinds={kind: random.choice(policies) for kind in LossKind})
        self.config = SourceConfig.from_properties(
            {
                "name": "m",
                "connector.class": "MirrorSourceConnector",
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
                "offset.lag.max": str(random.choice([0, 3, 20])),
            }
        )
        self.now_ms = 1_000_000
        self.names = 0
        self.source, self.target = SourceSide(), TargetSide()
        self.task = CheckpointTask(self.topics, FakeClock())
        self.starts = 1
        self.was_reset = False
        # A target that loses records, and a source that is another one: one of both in a run.
        loses = random.random() < 0.7
        self.most_losses = 1
        self.emitted: dict[tuple[str, int], tuple[Checkpoint, int, Told | None, int]] = {}
        """The last checkpoint of each group and partition, in which life, what the map told of
        then, and after how many starts of the task."""
        self.workers: dict[int, Copier | None] = {0: None, 1: None}
        """By partition."""
        self.frozen: list[tuple[Copier, dict[int, tuple[int, int, int]]]] = []
        """Workers that were taken for dead, and how often their logs were created, and lost
        records that had been told, until then."""
        for partition in self.partitions:
            self._produce(partition, random.randint(5, 40))
        self._new_worker(self.partitions)
        events: dict[Callable[[], None], float] = {
            self.produce: 4,
            self.copy: 14,
            self.turn: 6,
            self.commit: 8,
            self.crash: 1.5,
            self.hand_over: 1.5,
            # Together with losses under every second seed: both hide something from the oracle.
            self.freeze: 0.8 if not loses or seed % 2 else 0,
            self.wake_up: 0.8 if not loses or seed % 2 else 0,
            self.java: 0 if loses else 0.7,
            self.compact_source: 0 if self._copies_again() else 1.5,
            self.retain: 1,
            self.truncate_source: 0 if loses else 0.4,
            self.source_again: 0 if loses else 1,
            self.lose: 1.5 if loses else 0,
            self.target_again: 0.4 if loses else 0,
            self.compact_map: 2,
            self.reset_map: 0.6 if not loses and random.random() < 0.5 else 0,
            self.reset_syncs: 0 if loses else 0.3,
            self.failing: 0 if loses else 0.5,
            self.group_commits: 10,
            self.group_on_target: 1.5,
            self.round: 5,
            self.sync: 3,
            self.restart_task: 1,
            self.probe: 3,
            self.calm: 1,
        }
        self.events = list(events)
        self.weights = list(events.values())

    def _copies_again(self) -> bool:
        """Whether what the target loses is copied again. A source that has compacted records away
        in between has fewer for the same offsets then, and groups that waited at the end of the
        first copy stay beyond the end of the second until they move, or it has grown: the map does
        not keep a loss page that was copied over."""
        kinds = (LossKind.TARGET_LOSS, LossKind.TARGET_RECREATED)
        return any(self.policies.of(kind) is LossPolicy.COPY for kind in kinds)

    def run(self) -> None:
        for step in range(_STEPS):
            event = self.random.choices(self.events, self.weights)[0]
            self.note(f"{step}: {event.__name__}")
            event()
            self._take_stories()
        self.calm()

    def note(self, text: str) -> None:
        self.history.append(text)

    def _take_stories(self) -> None:
        for worker in self._running():
            self.history += worker.story
            worker.story.clear()
            self._see_strays(worker)

    def _see_strays(self, worker: Copier) -> None:
        """Note pages that a worker wrote of partitions that it does not have."""
        pages = worker.topics.producer.pages
        for number in sorted(pages):
            if self.workers[number] is not worker:
                self.partitions[number].stray()
        pages.clear()

    # Workers.

    def _running(self) -> list[Copier]:
        return list({id(w): w for w in self.workers.values() if w is not None}.values())

    def _new_worker(self, partitions: list[Partition]) -> None:
        self.names += 1
        self.now_ms += self.random.randint(1, 10_000)
        now = self.now_ms + self.random.choice([0, 0, 60_000, -60_000, -600_000])
        worker = Copier(
            f"w{self.names}",
            self.topics,
            self.config,
            self.policies,
            max(1, now),
            self.random,
            exactly_once=self.exactly_once,
        )
        self.note(f"{worker.name} begins with {[p.number for p in partitions]}, clock {now}")
        for partition in partitions:
            self.workers[partition.number] = worker
            worker.assign(partition)

    def _pick(self) -> tuple[Partition, Copier | None]:
        partition = self.random.choice(self.partitions)
        return partition, self.workers[partition.number]

    def copy(self) -> None:
        partition, worker = self._pick()
        if worker is None:
            self._new_worker([partition])
            return
        foreign = 0
        if self.random.random() < 0.1 and not partition.untold:
            foreign = self.random.randint(1, 3)
        count = worker.copy(partition.number, self.random.randint(1, 25), foreign)
        position = worker.copies[partition.number].position
        self.note(f"  {partition.number}: {count} records up to {position}; {partition.target.end}")

    def turn(self) -> None:
        for worker in self._running():
            if worker.topics.reads and worker.topics.reading and self.random.random() < 0.5:
                worker.topics.reading.finish()
            worker.turn()
            worker.deliver(self.random.randint(0, 6))

    def commit(self) -> None:
        _, worker = self._pick()
        if worker is not None:
            worker.turn()
            worker.commit()
            worker.deliver(self.random.randint(0, 12))
            worker.turn()

    def crash(self) -> None:
        worker = self._pick()[1]
        if worker is None:
            return
        self._kill(worker)

    def freeze(self) -> None:
        """A worker stands still; others take its partitions."""
        worker = self._pick()[1]
        if worker is None:
            return
        logs = {
            p.number: (p.source.life, p.target.life, p.losses - p.untold) for p in self.partitions
        }
        self.frozen.append((worker, logs))
        self._lose(worker, "freezes")

    def wake_up(self) -> None:
        if self.frozen:
            worker, before = self.frozen.pop(0)
            self.note(f"  {worker.name} wakes up")
            worker.topics.producer.counting.clear()
            worker.wake_up()
            for number in worker.topics.producer.counting:
                # They may be of records that the target has lost.
                partition = self.partitions[number]
                logs = (partition.source.life, partition.target.life, partition.losses)
                partition.hidden = partition.hidden or before[number] != logs
            self._see_strays(worker)

    def _kill(self, worker: Copier) -> None:
        worker.die()
        self._lose(worker, "dies")

    def _lose(self, worker: Copier, how: str) -> None:
        for copy in worker.copies.values():
            copy.of.hidden = copy.of.hidden or copy.told_at is not None
        mine = [n for n, other in self.workers.items() if other is worker]
        for number in mine:
            self.workers[number] = None
        partitions = [self.partitions[number] for number in mine]
        self.note(f"  {worker.name} {how}; stored {[p.stored for p in partitions]}")
        for partition in partitions:
            # Another begins before what was stored, and copies again.
            copied = partition.stored or 0
            again = range(copied, partition.source.end)
            partition.known -= set(again)
        if self.random.random() < 0.6:
            self._new_worker(partitions)

    def hand_over(self) -> None:
        """A partition moves between two workers that go on running."""
        partition, worker = self._pick()
        others = [other for other in self._running() if other is not worker]
        if worker is None:
            return
        worker.release(partition.number)
        self.workers[partition.number] = None
        if not others:
            self._new_worker([partition])
            return
        self.note(f"  {partition.number} from {worker.name} to {others[0].name}")
        others[0].sync_writer.look_again()
        others[0].assign(partition)
        self.workers[partition.number] = others[0]

    def failing(self) -> None:
        worker = self._pick()[1]
        if worker is not None and self.random.random() < 0.5:
            worker.topics.producer.failing = not worker.topics.producer.failing

    def java(self) -> None:
        """Java's MirrorMaker 2 copies for a while, and stores its offsets."""
        partition, worker = self._pick()
        if worker is not None:
            worker.release(partition.number)
            self.workers[partition.number] = None
        if partition.untold:
            partition.hidden = True
        source, target = partition.source, partition.target
        position = partition.stored if partition.stored is not None else source.start
        rule = OffsetSyncRule(self.config.offset_lag_max)
        end = min(source.end, position + self.random.randint(1, 30))
        for offset in range(max(position, source.start), end):
            if not source.alive[offset]:
                continue
            target.append((source.life, offset))
            partition.known.discard(offset)
            for up, down in rule.copied(offset, 1, target.end - 1):
                self._write_sync(partition, up, down)
        delayed = rule.take_delayed()
        if delayed is not None and self.random.random() < 0.7:
            self._write_sync(partition, *delayed)
        if end > position:
            partition.stored, partition.noted = end, None
            if partition.losses or target.life > 1:
                partition.hidden = partition.hidden or partition.untold
        self.note(f"  Java copied {partition.number} up to {end}")

    def _write_sync(self, partition: Partition, up: int, down: int) -> None:
        sync = OffsetSync(TOPIC, partition.number, up, down)
        self.topics.syncs.append(sync.key(), sync.value())

    # The logs.

    def _produce(self, partition: Partition, count: int) -> None:
        alive = partition.source.alive
        for _ in range(count):
            alive.append(self.random.random() < 0.9)

    def produce(self) -> None:
        self._produce(self.random.choice(self.partitions), self.random.randint(1, 30))

    def compact_source(self) -> None:
        source = self.random.choice(self.partitions).source
        for offset in range(source.start, source.end):
            if self.random.random() < 0.15:
                source.alive[offset] = False

    def retain(self) -> None:
        source = self.random.choice(self.partitions).source
        source.start = min(source.end, source.start + self.random.randint(1, 20))

    def truncate_source(self) -> None:
        partition = self.random.choice(self.partitions)
        source = partition.source
        end = max(source.start, source.end - self.random.randint(1, 10))
        if end == source.end or self.workers[partition.number] is None:
            return
        # Records with the same offsets are others; what was copied of the old ones stays.
        lost = {(source.life, o) for o in range(end, source.end)}
        target = partition.target
        target.log = [None if origin in lost else origin for origin in target.log]
        target.last = {o: at for o, at in target.last.items() if o not in lost}
        del source.alive[end:]
        partition.known = {o for o in partition.known if o < end}
        # An offset behind the last record that is left says where the next one is: that is lost.
        last = max((at for at, alive in enumerate(source.alive) if alive), default=-1)
        partition.inexact |= set(range(last + 1, end + 100))
        for group in GROUPS:
            offsets = self.source.offsets[group]
            at = offsets.get((TOPIC, partition.number))
            if at is not None and at.offset is not None and at.offset > end:
                offsets[TOPIC, partition.number] = Committed(end)
        worker = self.workers[partition.number]
        if worker is not None:
            worker.turn()
            worker.look(worker.copies[partition.number])

    def source_again(self) -> None:
        partition = self.random.choice(self.partitions)
        life = partition.source.life + 1
        partition.source = Source(life)
        partition.untold = True
        partition.high = 0
        self._produce(partition, self.random.randint(0, 30))
        if self.random.random() < 0.3:
            partition.source.start = min(partition.source.end, 4)
        partition.known.clear()
        partition.inexact = set(range(200))
        for group in GROUPS:
            self.source.offsets[group].pop((TOPIC, partition.number), None)

    def lose(self) -> None:
        partition = self.random.choice(self.partitions)
        target = partition.target
        end = max(0, target.end - self.random.randint(1, 40))
        if end == target.end or self._is_told(partition):
            return
        gone = target.cut(end)
        self._lost(partition, {offset for life, offset in gone if life == partition.source.life})
        for origin in gone:
            if origin in target.last:
                partition.older_copies.add(origin)
        self.note(f"  the target lost {partition.number} from {end} on")

    def _is_told(self, partition: Partition) -> bool:
        """Whether a loss is under way, or the target lost enough in this run."""
        worker = self.workers[partition.number]
        told = worker is not None and worker.copies[partition.number].told_at is not None
        return told or partition.untold or partition.losses >= self.most_losses

    def _lost(self, partition: Partition, gone: set[int]) -> None:
        partition.losses += 1
        partition.untold = True
        partition.hidden = partition.hidden or self.was_reset
        partition.known -= gone
        # What is copied again after a loss has been in other places. Of pages that others wrote
        # over only the beginnings may be known.
        first = 0 if partition.strays else min(gone, default=0)
        partition.inexact |= set(range(first, partition.source.end + 1))

    def target_again(self) -> None:
        partition = self.random.choice(self.partitions)
        if self._is_told(partition):
            return
        target = partition.target
        target.cut(0)
        target.life += 1
        self._lost(partition, set(range(partition.source.end)))
        partition.inexact |= set(range(300))
        for group in GROUPS:
            self.target.held.pop((group, partition.number), None)
        self.note(f"  {partition.number} was created again on the target")

    # The internal topics.

    def compact_map(self) -> None:
        until = self.random.randint(0, self.topics.map.end)
        topic = self.topics.map
        topic.compact(min(until, topic.late_page(), topic.late_owner()))

    def reset_map(self) -> None:
        topic = self.topics.map
        if self.random.random() < 0.5:
            topic.create_again()
        else:
            for key in topic.delete_before(self.random.randint(0, topic.end)):
                owned = parse_note_key(Note.OWNER, key)
                if owned is not None:
                    self.partitions[owned[1]].disowned = self.starts
        self.was_reset = True
        for worker in self._running():
            worker.pages_are_gone()
        for partition in self.partitions:
            partition.known.clear()
            partition.deleted = True
            partition.hidden = partition.hidden or partition.losses > 0

    def reset_syncs(self) -> None:
        self.topics.syncs.create_again()

    # Groups.

    def group_commits(self) -> None:
        partition = self.random.choice(self.partitions)
        source = partition.source
        group = self.random.choice(GROUPS)
        key = (TOPIC, partition.number)
        at = self.source.offsets[group].get(key)
        offset = source.start if at is None or at.offset is None else at.offset
        if self.random.random() < 0.8:
            offset = min(offset + self.random.randint(0, 30), max(offset, source.end))
        else:
            offset = self.random.randint(0, source.end + 3)
        self.source.offsets[group][key] = Committed(offset)

    def group_on_target(self) -> None:
        """A group starts on the target, reads on there, or stops."""
        group = self.random.choice(GROUPS)
        if group not in self.target.active:
            if self.random.random() < 0.3:
                self.target.active.add(group)
                self.target.exist.add(group)
            return
        for partition in self.partitions:
            if self.random.random() < 0.5:
                held = self.target.held.get((group, partition.number))
                at = 0 if held is None else held.offset
                end = partition.target.end
                offset = self.random.randint(min(at, end), end)
                self.target.held[group, partition.number] = Held(
                    offset, None, partition.source.life, partition.told
                )
        if self.random.random() < 0.5:
            self.target.active.discard(group)

    def restart_task(self) -> None:
        self.task = CheckpointTask(self.topics, FakeClock())
        self.starts += 1

    def _position(self, partition: Partition) -> int:
        worker = self.workers[partition.number]
        again = self.policies.of(LossKind.TRUNCATION) is LossPolicy.COPY
        if worker is None:
            position = partition.source.start if partition.stored is None else partition.stored
            if partition.resumed is not None:
                position = min(position, partition.resumed)  # the next one finds the loss, too
            return 0 if again and position > partition.source.end else position
        copy = worker.copies[partition.number]
        if partition.resumed is not None and not (copy.resumed or copy.learned):
            return min(copy.position, partition.resumed)  # it is going to find the loss, too
        if again and copy.position > partition.source.end:
            return 0  # it does not know yet that the source was truncated, and copies again then
        if copy.source_id is not None and copy.source_id & 0xFFFF != partition.source.life:
            return 0  # it does not know yet that the source is another one
        return copy.position

    def probe(self) -> None:
        partition = self.random.choice(self.partitions)
        offsets = [self.random.randint(0, partition.source.end + 2) for _ in range(8)]
        self.task.translate(
            [GroupOffset("probe", TOPIC, partition.number, offset) for offset in offsets], _SOON
        )
        self._check_asked()

    def _check_asked(self) -> None:
        for asked, place in self.task.asked:
            partition = self.partitions[asked.partition]
            check_place(partition, asked.offset, place, self._position(partition))

    def round(self) -> None:
        due = self.task.round(self.source)
        self._check_asked()
        for each in due:
            partition = self.partitions[each.partition]
            key = (each.group, each.partition)
            last = self.emitted.get(key)
            self.note(f"  {each}")
            if (
                last is not None
                and each.downstream_offset < last[0].downstream_offset
                and each.upstream_offset >= last[0].upstream_offset
                and last[1:3] == (partition.source.life, partition.told)
                and (last[3] == self.starts or not (partition.losses or partition.tells))
                and not partition.untold
                and not partition.hidden
                and not partition.strayed
                and not self._explained_by_deleted_records(partition, each)
            ):
                raise Broken(f"{each} is emitted after {last[0]}, and nothing was lost")
            held = self.target.held.get(key)
            if held is not None and each.upstream_offset < (held.upstream or 0):
                held.upstream = None
            self.emitted[key] = each, partition.source.life, partition.told, self.starts

    def _explained_by_deleted_records(self, partition: Partition, checkpoint: Checkpoint) -> bool:
        """Whether workers deleted pages of its offset that they know, as it expired, while the
        running task knows older ones of it, which somebody had deleted before; or the running task
        knows an owner whose note somebody deleted, and leaves out pages of later ones; or the page
        that says where another log begins may be written again, and those after it not yet."""
        offset = checkpoint.upstream_offset
        expired = partition.deleted and offset < partition.source.start
        begun = partition.deleted and partition.tells > 0 and offset not in partition.known
        return expired or begun or partition.disowned == self.starts

    def sync(self) -> None:
        outcome = self.task.sync(self.target)
        for group, number, offset in self.target.written:
            partition = self.partitions[number]
            checkpoint, life, told, emitted = self.emitted[group, number]
            before = self.target.held.get((group, number))
            self.note(f"  {group} goes to {offset} of {number}, from {before}")
            unsure = partition.strayed or self._explained_by_deleted_records(partition, checkpoint)
            if before is not None and offset <= before.offset and not unsure:
                if partition.losses == partition.tells == partition.strays == 0:
                    raise Broken(f"{group} goes back from {before} to {offset}, with nothing lost")
                same = told is not None and (before.told, before.emitted) == (told, emitted)
                if before.upstream is not None and same and not partition.hidden:
                    raise Broken(f"{group} goes back from {before} to {offset} once more")
            self.target.held[group, number] = Held(
                offset, checkpoint.upstream_offset, life, told, self.starts, emitted
            )
        if outcome.failed and not self.target.active:
            raise Broken(f"group sync failed: {outcome.failed}")

    def _check_map(self) -> None:
        # Pages that cannot be written now are written later.
        writes = all(w and w.copies[n].copied and w.writes for n, w in self.workers.items())
        if writes and not self.was_reset and self.topics.map.late_page() < self.topics.map.end:
            raise Broken("a page that an earlier session wrote over was not written again")

    def calm(self) -> None:
        """Everything that is under way ends; then each group's offset on the target is right."""
        for worker in self._running():
            worker.settle()
        self._take_stories()
        for worker in self._running():
            worker.compare()
            for number, copy in worker.copies.items():
                if copy.copied:
                    self.partitions[number].compared()
        self._take_stories()
        self._check_map()
        self.round()
        self.sync()
        for (group, number), held in self.target.held.items():
            partition = self.partitions[number]
            if (
                held.upstream is None
                or group in self.target.active
                or held.life != partition.source.life
                or held.upstream < partition.source.start
                or held.starts != self.starts
                or (partition.losses and self._position(partition) < partition.high)
                or partition.untold
                or partition.hidden
                or (TOPIC, number) not in self.source.offsets[group]
            ):
                continue
            committed = self.source.offsets[group][TOPIC, number].offset
            assert committed is not None
            # The round has just looked at what the group has committed by now.
            offset = max(held.upstream, committed)
            if committed < partition.source.start:
                continue
            left_out = skipped(partition, offset, held.offset, self._position(partition))
            if left_out is not None:
                raise Broken(f"{group} is at {held} of partition {number}, and {left_out}")
        for partition in self.partitions:
            self.task.translate(
                [
                    GroupOffset("probe", TOPIC, partition.number, offset)
                    for offset in range(0, partition.source.end + 2, 3)
                ],
                _SOON,
            )
            self._check_asked()


def run(seed: int) -> Outcome:
    """One run under one seed."""
    with replaced(partition_pages, "PAGE_SEGMENTS", _PAGE_SEGMENTS):
        random.seed(seed)  # the jitter of the product's backoffs
        world = World(seed)
        try:
            world.run()
        except Broken as broken:
            return Outcome("groups", seed, str(broken), world.history, len(world.history))
        except Exception as error:  # noqa: BLE001 - an error of the product, or of the simulation
            finding = f"{type(error).__name__}: {error}"
            history = [*world.history, *traceback.format_exc().splitlines()]
            return Outcome("groups", seed, finding, history, len(world.history))
        return Outcome("groups", seed, None, world.history, len(world.history))
