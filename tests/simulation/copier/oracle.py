"""The oracle of a copier run: it reads the target's logs and the engine after every step."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Mapping, Sequence

from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.offsets.log_identity import noted_facts
from connectors.mirror.offsets.offset_map_pages import OffsetRun
from tests.simulation.copier.pair_oracle import Broken, PairOracle
from tests.simulation.copier.worker import OFFSETS, SOURCE, TARGET, Stored
from tests.simulation.kafka.cluster import Cluster
from tests.simulation.kafka.coordinator import committed_offsets
from tests.simulation.kafka.log import ABORT, COMMIT
from tests.simulation.kafka.partition import SimulatedPartition
from tests.simulation.kafka.writing import numbers_of

__all__ = ["Oracle"]

Key = tuple[str, int]


class Oracle:
    """See the module."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        pairs: Mapping[Key, PairOracle],
        *,
        exactly_once: bool,
    ) -> None:
        """`pairs`: by partition of the target."""
        self._source = source
        self._target = target
        self._pairs = pairs
        self._exactly_once = exactly_once
        self._read: dict[Key, int] = dict.fromkeys(pairs, 0)
        """The target offset up to which each log was read."""
        self._unseen: dict[Key, list[tuple[int, Sequence[int]]]] = {}
        """(offset, numbers) of the batches of each log that will be cut off, and that nobody could
        read yet."""
        self._holds: dict[Key, deque[int]] = {key: deque() for key in pairs}
        """Target offsets at which reading of each log stops, the first one for now."""
        self._committed: dict[int, tuple[int, tuple[int, int]]] = {}
        self._lives = {number: (0, 0) for _, number in pairs}
        """Partition -> its committed position, and of which life and state of the source's topic it
        is."""

    def of_target(self, key: Key) -> PairOracle:
        return self._pairs[key]

    def of_source(self, key: Key) -> PairOracle:
        return next(pair for (_, n), pair in self._pairs.items() if n == key[1])

    # What befalls the target.

    def cut_off(self, partition: SimulatedPartition, end: int, lost: bool) -> None:
        pair = self._pairs.get(partition.key)
        if pair is None:
            return
        pair.target_cut_off(end, lost=lost, unseen=self._unseen.pop(partition.key, ()))
        self._goes_on_at(partition.key, end)

    def _goes_on_at(self, key: Key, end: int) -> None:
        """This log ends here now: what comes there is to be read."""
        self._read[key] = min(self._read[key], end)
        self._holds[key] = deque(min(each, end) for each in self._holds[key])

    def loses(self, key: Key) -> None:
        """This log of the target is about to lose records that it has acknowledged."""
        if key in self._pairs:
            self.read(key)
            self._unseen[key] = self._waiting(key)

    def _waiting(self, key: Key) -> list[tuple[int, Sequence[int]]]:
        """(offset, numbers) of the replicated batches that readers do not see yet."""
        partition = self._target.find(key)
        if partition is None:
            return []
        return [
            (batch.base, numbers_of(batch.data))
            for batch in partition.log.from_offset(self._read[key])
            if batch.next <= partition.log.high and not batch.control and batch.fate != ABORT
        ]

    def recreated(self) -> None:
        """The target's topic is deleted."""
        for key, pair in self._pairs.items():
            self.read(key)
            pair.target_cut_off(0, lost=True, unseen=self._waiting(key))
            pair.forgive()
            pair.target_recreations_due += 1
            pair.forgiving = True
            self._goes_on_at(key, 0)

    def forgive(self) -> None:
        for pair in self._pairs.values():
            pair.forgive()

    # Reading.

    def read_all(self) -> None:
        for key in self._pairs:
            self.read(key)

    def hold(self, key: Key, end: int) -> None:
        """Read this log up to `end` only, until `released`."""
        self._holds[key].append(end)

    def released(self, key: Key) -> bool:
        """Read this log up to where it is held; whether all of that is decided by now."""
        self.read(key)
        partition = self._target.find(key)
        held = self._holds[key]
        if held and partition is not None and partition.log.stable < held[0]:
            return False
        if held:
            held.popleft()
        return True

    def _reads_late(self, number: int) -> bool:
        """Whether there is more on the target than is read: a loss is to be told of before."""
        held = self._holds[TARGET, number]
        partition = self._target.find((TARGET, number))
        return bool(held) and partition is not None and partition.log.stable > held[0]

    def read(self, key: Key) -> None:
        """Take in what is committed on the target since the last look."""
        partition = self._target.find(key)
        if partition is None:
            return
        log = partition.log
        end = min([log.stable, *list(self._holds[key])[:1]])
        at = self._read[key]
        if end <= at:
            return
        pair = self._pairs[key]
        for batch in log.from_offset(at):
            if batch.next > end:
                break
            at = batch.next
            if batch.control or (batch.transactional and batch.fate != COMMIT):
                continue
            pair.feed(numbers_of(batch.data), batch.base)
        self._read[key] = at

    # What the copier says.

    def acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        """`on_acked`: these source offsets are at the target from `base` on."""
        if base < 0 or self._target.find(partition.target) is None:
            return
        self.read(partition.target)
        pair = self._pairs[partition.target]
        if pair.forgiving:
            return  # of a topic that is gone by now
        for first, count in runs:
            for n in range(count):
                number = pair.number_at(base + n)
                if number is None or number in pair.lost_on_target:
                    continue
                record = pair.truth.records[number]
                if record.offset != first + n and not pair.has_lost(first + n):
                    raise Broken(
                        f"{pair.name}: told that source offset {first + n} is at target offset "
                        f"{base + n}, where {record} is"
                    )
            base += count
        pair.acked_end = max(pair.acked_end, base)

    def check_positions(self, partitions: Collection[PartitionCopy]) -> None:
        """What is acknowledged is on the target."""
        for partition in partitions:
            if partition.acked_position > 0 and not self._exactly_once:
                pair = self._pairs[partition.target]
                pair.check_position(partition.acked_position, "the acknowledged position")

    def check_stored(self, stored: Mapping[Key, Stored]) -> None:
        for key, each in stored.items():
            pair = self.of_source(key)
            known = each.life == pair.truth.life and each.cuts == pair.cuts
            if each.position > 0 and known:
                pair.check_position(each.position, "the stored position")

    def check_copied_again(self, stored: Mapping[Key, Stored]) -> None:
        """Where copying lost records again has begun, a crash makes the next copier go on with
        them: the stored position is not beyond them."""
        for key, each in stored.items():
            pair = self.of_source(key)
            if pair.copies_again:
                known = each.life == pair.truth.life and each.cuts == pair.cuts
                pair.check_copied_again(each.position if known else None)

    def note_lives(self) -> None:
        """Offsets are written: they are of the topics that the copier knows now."""
        self._lives = {
            number: (-1 if pair.suspended else pair.settled_life, pair.cuts)
            for (_, number), pair in self._pairs.items()
        }

    def check_commit(self) -> None:
        """A transaction is committed: offsets and records agree."""
        found = committed_offsets(self._target, OFFSETS)
        stored = {
            json.loads(key)["partition"]: (json.loads(value)["offset"] + 1, note)
            for key, (value, note) in found.items()
            if value is not None
        }
        for (_, number), pair in self._pairs.items():
            position, note = stored.get(number, (None, None))
            known = self._committed.get(number)
            if position is not None and (known is None or known[0] != position):
                life = self._life_of(note, position, self._lives[number])
                known = self._committed[number] = (position, life)
            if position is not None and known is not None:
                told_late = pair.recent_recreations > 0 or self._reads_late(number)
                if told_late or known[1] != (pair.truth.life, pair.cuts):
                    continue
                pair.check_position(position, "the position in the committed offsets")
                pair.check_not_beyond(position)
            elif pair.sequence and not pair.truth.life and not pair.cuts:
                raise Broken(
                    f"{pair.name}: records are committed on the target, and no source offset is"
                )

    def _life_of(self, note: bytes | None, position: int, life: tuple[int, int]) -> tuple[int, int]:
        """Of which life and state of the source's topic a committed position is. `life`: that when
        it was written. The copier may have heard of another topic since the position was taken:
        the note beside it names its own."""
        facts = noted_facts(note, position)
        if facts is None or facts.source_topic_id is None or life[0] < 0:
            return life
        return self._source.ids[SOURCE].index(facts.source_topic_id), life[1]

    def check_complete(self) -> None:
        for pair in self._pairs.values():
            pair.check_complete()

    @staticmethod
    def name(key: Key) -> str:
        return f"{SOURCE}-{key[1]}"
