"""The oracle of one partition pair: what the target's log may hold, given what the source held.

The committed records of the target, by number, have to be the source's in order. Where a number is
left out, it has to be one that nobody can copy, or that was reported. Where numbers go back,
copying has to have begun again at a stored position, or where a reported loss said.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from tests.simulation.copier.truth import RecordState, SourceRecord, SourceTruth

__all__ = ["Broken", "PairOracle"]


class Broken(AssertionError):
    """An invariant does not hold; the message names it."""


class PairOracle:
    """`name`: of the source partition, for messages."""

    def __init__(self, name: str, truth: SourceTruth, *, read_committed: bool) -> None:
        self.name = name
        self.truth = truth
        self.sequence: list[int] = []
        """Numbers on the target, in its order."""
        self.bases: list[int] = []
        """Their target offsets."""
        self.top = -1
        """The highest number on the target."""
        self.settled_life = 0
        """The life of the source's topic that the copier knows of."""
        self.suspended = False
        """The source lost records that may have been copied: positions mean little until the copier
        has noticed."""
        self.cuts = 0
        """How often an unclean election cut the source's log off."""
        self._read_committed = read_committed
        self._restarts: list[tuple[int, int]] = []
        """(life, source offset) from where copying may begin again."""
        self.forgiving = False
        """The target's topic is another one, and the copier has not said so yet: what is under way
        may land in it in any order."""
        self.forgotten = 0
        """How often the target forgot the producer."""
        self._remembered = 0
        """So often it has known it again, since a while."""
        self._loose_below = 0
        """Numbers below may come in any order: the target forgot what it had of them."""
        self._reported: list[tuple[int, int, int]] = []
        """(life, first, end) of source offsets that were reported as lost, or put aside."""
        self._unknowable: list[tuple[int, int]] = []
        """(life, source offset) below which records may be deleted unseen."""
        self._unreported: set[int] = set()
        """Numbers that were left out as deleted, and not reported yet."""
        self.lost_on_target: set[int] = set()
        """Numbers that the target had and lost, and that need not be there again."""
        self._to_copy_again: set[int] = set()
        """Numbers among them that a reported loss makes the copier copy again. Once it has begun
        to, all of them have to be on the target, whatever happens to the copier."""
        self._again_from = 0
        """The end of the target's log when the loss was reported. What is before was sent by
        somebody who did not know of the loss yet."""
        self._copied_again: frozenset[int] = frozenset()
        """Those that it has begun to copy again since `check_copied_again`."""
        self._moved_to: dict[int, int] = {}
        """Source offset at which a reported loss made copying go on -> the end of the target's log
        then."""
        self.target_losses_due = 0
        self.acked_end = 0
        """The target offset up to which the copier was told that its records are there."""
        self._first_fed: int | None = None
        """The number that was copied first."""
        self.recreations_due = 0
        self.recent_recreations = 0
        """How often the source was re-created since the oldest metadata that may be told."""
        self.recent_target_recreations = 0
        self.target_recreations_due = 0
        self.recreation_to_tell = False
        """The source was re-created after something of it had been copied, which has to be told."""
        self.first_position_known = True
        self._blind_lives: set[int] = set()
        """Of these the copier cannot know that its position is of another life."""

    # What befalls the pair.

    def begins_without_position(self) -> None:
        """A copier begins, and nothing is stored."""
        self._begins()
        self._settle()
        self._restarts = [(self.truth.life, 0)]
        self.first_position_known = False
        # The copier that ran before stored nothing: what it had begun with, nobody knows.
        self._first_fed = None

    def begins_at(self, offset: int, life: int, *, knows_topic: bool) -> None:
        """A copier begins with this stored position, of this life. `knows_topic`: it can see that
        the topic is another since."""
        self._begins()
        self._restarts = [(life, offset)]
        if life == self.truth.life:
            self._settle()
        elif knows_topic:
            self.settled_life = life
            self.recreations_due = self.truth.life - life
        else:
            self._settle()
            self._restarts.append((self.truth.life, offset))
            self._blind_lives.add(self.truth.life)

    def _begins(self) -> None:
        self._to_copy_again.clear()
        self.target_losses_due = self.acked_end = 0
        self.forgiving = False
        self.target_recreations_due += self.recent_target_recreations

    def _settle(self) -> None:
        """The copier reads the topic that is there now, and knows no other, except from metadata
        that is old."""
        self.settled_life = self.truth.life
        self.recreations_due = self.recent_recreations
        self.recreation_to_tell = False

    def begun_anew(self, position: int) -> None:
        """The source's topic was deleted. A copier at its beginning that has not learned the id of
        the topic takes the next one for the one that was always there, and is right: it has read
        nothing of any other."""
        if position <= 0:
            self._settle()
            self._restarts.append((self.truth.life, 0))

    def deleted_before(self, start: int, position: int) -> None:
        """Retention moved the log's start here. `position`: the copier's, or what is stored."""
        if self.suspended:
            self.deleted_unseen(start, position)

    def deleted_unseen(self, start: int, position: int) -> None:
        """Retention moved the log's start here. The log was cut off, and a copier that has not
        noticed may begin at this position: other records have been at the offsets before it. Once
        they are deleted, brokers answer that the log is unbroken from its start on (they forget the
        leader epochs before it), so nobody can know of them."""
        self._unknowable.append((self.truth.life, min(start, position)))

    def forgive(self) -> None:
        """The target lost what makes writing idempotent: what is under way may come twice."""
        self._loose_below = self.truth.next_number

    def producer_forgotten(self) -> None:
        """The target forgot the producer. Until it has taken something, it takes any batch."""
        self.forgotten += 1
        self.forgive()

    def remembered(self, forgotten: int) -> None:
        """The target knows the producer again, since a while, after it forgot it so often. It may
        have forgotten it again since."""
        self._remembered = max(forgotten, self._remembered)
        self.forgive()

    def target_cut_off(
        self, end: int, *, lost: bool, unseen: Sequence[tuple[int, Sequence[int]]] = ()
    ) -> None:
        """The target's log ends at `end` now. `lost`: acknowledged records may be gone. `unseen`:
        (offset, numbers) of batches that nobody could read, as their transaction is open."""
        if lost:
            for base, numbers in unseen:
                self.lost_on_target.update(numbers if base >= end else ())
        while self.bases and self.bases[-1] >= end:
            self.bases.pop()
            number = self.sequence.pop()
            if lost:
                self.lost_on_target.add(number)
        if lost:
            self.lost_on_target -= set(self.sequence)
            if end < self.acked_end:
                self.target_losses_due += 1
        self.acked_end = min(self.acked_end, end)
        self.top = max(self.sequence, default=-1)

    def has_lost(self, offset: int) -> bool:
        """Whether the target had the record at this source offset, and lost it. Under exactly-once
        that it was acknowledged is told with the commit, which may come later."""
        records = (self.truth.records[number] for number in self.lost_on_target)
        return any(each.offset == offset for each in records if each.life == self.settled_life)

    def excuse(self, first: int, end: int) -> None:
        """These source offsets were reported as lost, or put aside."""
        self._reported.append((self.settled_life, first, end))

    def loss_reported(self, loss: Loss) -> None:
        """The copier reported a loss. Where it stops after it, it finds it once more when it goes
        on."""
        if loss.resume is None:
            self._stopped_after(loss)
            return
        if loss.kind is LossKind.SOURCE_RECREATED:
            if not self.recreations_due:
                raise Broken(f"{self.name}: a re-creation of the source was reported, and was none")
            self.recreations_due -= 1
            self.recreation_to_tell = False
            self.settled_life = self.truth.life
            self.suspended = False
            self.excuse(0, loss.resume or 0)
        elif loss.kind is LossKind.TARGET_RECREATED:
            if not self.target_recreations_due:
                raise Broken(f"{self.name}: a re-creation of the target was reported, and was none")
            self.target_recreations_due -= 1
            self.forgiving = self.target_recreations_due > 0
            self.forgive()
            self.target_losses_due = self.acked_end = 0
        elif loss.kind is LossKind.TARGET_LOSS:
            # The copier does not know where the target ends before the next batch is acknowledged.
            self.target_losses_due = self.acked_end = 0
        elif loss.kind is LossKind.TRUNCATION:
            self.suspended = False
            self.excuse(loss.position, loss.end)
            # Whether the log had others below its start meanwhile, nobody can know.
            self._unknowable.append((self.truth.life, loss.first))
        else:
            self.excuse(loss.first, loss.end)
        if loss.on_target and loss.policy is LossPolicy.COPY and loss.resume is not None:
            self._to_copy_again |= {
                number
                for number in self.lost_on_target
                if self.truth.records[number].life == self.settled_life
                and self.truth.records[number].offset >= loss.resume
            }
        if loss.resume is not None:
            lives = {self.settled_life, self.truth.life}
            self._restarts += [(life, loss.resume) for life in lives]

    def _stopped_after(self, loss: Loss) -> None:
        if loss.kind is LossKind.SOURCE_RECREATED:
            if not self.recreations_due:
                raise Broken(f"{self.name}: a re-creation of the source was reported, and was none")
        elif loss.kind is LossKind.TARGET_RECREATED and not self.target_recreations_due:
            raise Broken(f"{self.name}: a re-creation of the target was reported, and was none")
        if loss.on_target:
            self.target_losses_due = self.acked_end = 0

    def goes_back(self, resume: int, end: int) -> None:
        """A loss is being reported: copying goes on at this source offset. `end`: of the target's
        log."""
        self._moved_to[resume] = end
        self._again_from = end

    # The target's log.

    def feed(self, numbers: Sequence[int], base: int) -> None:
        """These records are committed on the target, behind the others."""
        sequence = self.sequence
        if self._first_fed is None and numbers:
            self._first_fed = numbers[0]
        if base >= self._again_from and not self._to_copy_again.isdisjoint(numbers):
            self.lost_on_target -= self._to_copy_again
            self._copied_again |= self._to_copy_again
            self._to_copy_again.clear()
        last = sequence[-1] if sequence else -1
        for n, number in enumerate(numbers):
            if number != last + 1:
                self._judge(last, number)
            elif self._read_committed:
                self._judge_state(number)
            last = number
            sequence.append(number)
            self.bases.append(base + n)
            if number > self.top:
                self.top = number

    def _judge_state(self, number: int) -> None:
        record = self.truth.records[number]
        if not record.shown:
            raise Broken(f"{self.name}: copied {record}, which was not committed")

    def _judge(self, last: int, number: int) -> None:
        if number >= self.truth.next_number:
            raise Broken(f"{self.name}: number {number} on the target was never written")
        if self._read_committed:
            self._judge_state(number)
        record = self.truth.records[number]
        if self.forgiving or self.forgotten > self._remembered:
            self._loose_below = max(self._loose_below, number + 1)
        if number < self._loose_below or record.life != self.settled_life:
            return
        first = max(last + 1, self._loose_below)
        missing = None if number <= last else self._missing(range(first, number))
        if number > last and missing is None:
            return
        if not self._is_restart(number):
            if number <= last:
                raise Broken(
                    f"{self.name}: {self.truth.records[number]} follows "
                    f"{self.truth.records[last]} on the target, and copying did not begin again "
                    "there"
                )
            raise Broken(
                f"{self.name}: {missing} is missing on the target before "
                f"{self.truth.records[number]}"
            )
        missing = self._missing(range(max(self.top + 1, self._loose_below), number))
        if missing is not None:
            raise Broken(
                f"{self.name}: copying began again at {self.truth.records[number]}, and {missing} "
                "is not on the target"
            )

    def _missing(self, numbers: range) -> SourceRecord | None:
        """The first of these that cannot be left out."""
        for number in numbers:
            record = self.truth.records[number]
            if not self._leaves_out(record):
                return record
        return None

    def _leaves_out(self, record: SourceRecord) -> bool:
        """Whether it may be left out. What retention deleted has to be reported then."""
        if self._is_excused(record):
            return True
        if record.state is RecordState.DELETED:
            self._unreported.add(record.number)
            return True
        return False

    def _is_excused(self, record: SourceRecord) -> bool:
        """Whether nobody expects it on the target, or it was reported."""
        state = record.state
        if record.life in self._blind_lives:
            return True
        if state in (RecordState.COMPACTED, RecordState.VANISHED):
            return True
        if self._read_committed and (record.hidden or state is RecordState.OPEN):
            return True
        for life, first, end in self._reported:
            if life == record.life and first <= record.offset < end:
                return True
        return record.number in self.lost_on_target

    def _is_restart(self, number: int) -> bool:
        record = self.truth.records[number]
        for life, offset in self._restarts:
            if record.life != life or record.offset < offset:
                continue
            between = [
                each
                for each in self.truth.records[:number]
                if each.life == life and offset <= each.offset
            ]
            # A supposition only: nothing of this is left out yet.
            if all(each.state is RecordState.DELETED or self._is_excused(each) for each in between):
                return True
        return False

    def lacks_newest(self, end: int) -> bool:
        """Whether the newest record before this source offset is not on the target, and is to be
        there."""
        for record in reversed(self.truth.records):
            if record.number <= self.top or record.life != self.truth.life:
                return False
            if record.offset < end and record.state is RecordState.THERE:
                return not self._is_excused(record)
        return False

    # Positions.

    def check_position(self, position: int, what: str) -> None:
        """Everything before this source offset is on the target, as far as it can be."""
        if self.suspended or self.settled_life != self.truth.life:
            return
        for number in range(max(self.top + 1, self._loose_below), self.truth.next_number):
            record = self.truth.records[number]
            if record.life != self.settled_life:
                continue
            if record.offset >= position:
                return
            if not self._leaves_out(record):
                raise Broken(
                    f"{self.name}: {what} is {position}, and {record} is not on the target"
                )

    @property
    def copies_again(self) -> bool:
        """Whether it has begun to copy lost records again since `check_copied_again`."""
        return bool(self._copied_again)

    def check_copied_again(self, position: int | None) -> None:
        """The next copier goes on with the lost records that this one has begun to copy again.
        `position`: what is stored; None: nothing, or what is of another log."""
        again, self._copied_again = self._copied_again, frozenset()
        if position is None:
            return
        present = set(self.sequence)
        for number in sorted(again - present):
            record = self.truth.records[number]
            gone = record.state is RecordState.DELETED or self._is_excused(record)
            if record.offset < position and not gone:
                raise Broken(
                    f"{self.name}: lost records are copied again, the stored position is"
                    f" {position}, and {record} is not on the target"
                )

    def check_not_beyond(self, position: int) -> None:
        """Exactly once: nothing at or after this stored position is committed on the target."""
        if self.suspended or self.settled_life != self.truth.life or not self.sequence:
            return
        if self.bases[-1] < self._moved_to.get(position, 0):
            return  # a loss moved it back, and nothing was copied since
        record = self.truth.records[self.sequence[-1]]
        if record.state is RecordState.VANISHED:
            return
        if record.life == self.settled_life and record.offset >= position:
            raise Broken(
                f"{self.name}: {record} is committed on the target, and the stored position is "
                f"{position}"
            )

    def number_at(self, target_offset: int) -> int | None:
        """The number on the target at this offset, where it was looked at."""
        low, high = 0, len(self.bases)
        while low < high:
            middle = (low + high) // 2
            if self.bases[middle] < target_offset:
                low = middle + 1
            else:
                high = middle
        if low < len(self.bases) and self.bases[low] == target_offset:
            return self.sequence[low]
        return None

    # The end.

    def check_complete(self) -> None:
        """Everything that can be copied is on the target, and every loss was reported."""
        present = set(self.sequence)
        for record in self.truth.records:
            if record.number in present:
                continue
            if not self._leaves_out(record):
                raise Broken(f"{self.name}: {record} is not on the target in the end")
        begun = 0
        if not self.first_position_known:
            begun = self.truth.next_number if self._first_fed is None else self._first_fed
        for number in self._unreported - present:
            record = self.truth.records[number]
            if number < begun:
                continue  # gone before copying began
            reported = any(
                life == record.life and first <= record.offset < end
                for life, first, end in self._reported
            ) or any(life == record.life and record.offset < end for life, end in self._unknowable)
            if not reported and record.life == self.truth.life:
                raise Broken(f"{self.name}: {record} was left out, and never reported")
        if self.target_losses_due and self.lost_on_target - present:
            lost = min(self.lost_on_target - present)
            raise Broken(
                f"{self.name}: the target lost {self.truth.records[lost]}, and it was never "
                "reported"
            )
        if self.recreation_to_tell:
            raise Broken(f"{self.name}: the source was re-created, and it was never reported")
