"""Pages of a loss, and of a worker whose clock is behind, lead every reader right."""

from __future__ import annotations

from collections.abc import Iterable

from connect.clients.librdkafka.topic_log import LogRecord
from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.formats import Checkpoint, OffsetSync
from connectors.mirror.offsets.map_notes import Note, note_key
from connectors.mirror.offsets.map_topic_reading import NOTHING_READ, MapTopic, MapTopicReading
from connectors.mirror.offsets.offset_map_pages import page_key
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.offset_map_writer import MapWriter
from connectors.mirror.offsets.partition_pages import PAGE_SEGMENTS
from connectors.mirror.offsets.translation import Place, best_place
from tests.support.fake_clock import FakeClock

T = ("t", 0)


class Topic:
    """The map's topic, and who follows it."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.store = OffsetMapStore(lambda _: {})

    def writer(self, now_ms: int) -> MapWriter:
        """A writer that begins now, and has read the topic."""
        writer = MapWriter(FakeClock(now_ms=now_ms))
        writer.has_read(self.read())
        return writer

    def copied(self, writer: MapWriter, first: int, count: int, target: int) -> None:
        """Write that these records were copied."""
        writer.copied(T, first, count, target)
        self.write(writer)

    def write(self, writer: MapWriter) -> None:
        for due in writer.due([T]):
            for key, value in due.records():
                self.store.take(key, value, len(self.records))
                self.records.append((key, value))
            writer.written([due])
        writer.read_begins()

    def append(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in records:
            self.store.take(key, value, len(self.records))
            self.records.append((key, value))

    def take_over(self, writer: MapWriter) -> None:
        """Write what is due after a change of owners."""
        self.note_owners(writer)
        self.write(writer)

    def note_owners(self, writer: MapWriter) -> None:
        """Write the notes of the owner that are due, and what goes before them."""
        owners = writer.due_owners([T])
        repairs = writer.due_repairs(owners)
        self.append(record for due in repairs for record in due.records())
        notes = [
            (note_key(Note.OWNER, key), each.encode()) for key, of in owners.items() for each in of
        ]
        self.append(notes)
        writer.written(repairs)
        writer.owners.taken(owners, written=True)
        writer.read_begins()
        writer.has_read(self.read())

    def delete(self, first_source: int) -> None:
        self.store.take(page_key(*T, first_source), None, len(self.records))
        self.records.append((page_key(*T, first_source), None))

    def read(self) -> MapTopic:
        reading = MapTopicReading("map", NOTHING_READ)
        for at, (key, value) in enumerate(self.records):
            reading.take(LogRecord(0, at, key, value, 0, ()))
        return reading.read({0: len(self.records)})

    def compacted(self) -> Topic:
        """The topic with the newest record of each key, as a new reader finds it."""
        found = Topic()
        newest = {key: at for at, (key, _) in enumerate(self.records)}
        found.append(each for at, each in enumerate(self.records) if newest[each[0]] == at)
        return found

    def place(self, offset: int, *sync: int) -> Place | None:
        known = self.store.known({T: [offset]}).get((T, offset))
        return best_place(known, OffsetSync(*T, *sync) if sync else None, offset)


def lost(first: int, position: int) -> Loss:
    return Loss(LossKind.TARGET_LOSS, LossPolicy.REPORT, T, T, first, position, position, position)


def test_after_a_loss_groups_go_on_at_what_comes_next_whatever_older_syncs_say() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 0, 950, 0)
    book = CheckpointBook()
    for offset in (907, 950, 960):
        place = topic.place(offset, 900, 900)
        assert place is not None
        assert book.emit(Checkpoint(f"g{offset}", "t", 0, offset, place.offset), place)
    assert writer.lost(T, lost(852, 950), None)
    topic.write(writer)
    for offset in (852, 907, 949, 950):
        assert topic.place(offset, 907, 907) == Place(852, True, loss=1001)
    assert topic.place(851, 851, 851) == Place(851, True, loss=1001)
    topic.copied(writer, 950, 10, 852)
    assert topic.place(955) == Place(857, True, loss=1001)
    for offset, target in ((907, 852), (950, 852), (960, 862)):
        place = topic.place(offset, 907, 907)
        assert place is not None
        assert place.offset == target
        assert book.emit(Checkpoint(f"g{offset}", "t", 0, offset, target), place)
    assert book.void()["g907"] == {("t", 0): 907}


def test_pages_of_a_worker_whose_clock_is_behind_count() -> None:
    topic = Topic()
    ahead = topic.writer(1_060_000)
    topic.copied(ahead, 0, 1000, 0)
    behind = MapWriter(FakeClock(now_ms=1_020_000))
    topic.copied(behind, 1000, 5000, 1000)  # before it has read what the other wrote
    behind.has_read(topic.read())
    topic.write(behind)
    topic.copied(behind, 6000, 10, 6000)
    assert topic.place(3500) == Place(3500, True)
    assert topic.place(6005) == Place(6005, True)


def _lost_by_a_former_owner(topic: Topic) -> list[tuple[bytes, bytes | None]]:
    """The target lost everything, and 60 to 69 are copied since. Returns the records that the first
    owner, which is frozen, has still to send: a page with the key of the loss page."""
    frozen = topic.writer(1_000)
    frozen.copied(T, 0, 20, 0)
    handed_over = [record for due in frozen.due([T]) for record in due.records()]
    for now_ms, (first, count) in ((200_000, (0, 20)), (300_000, (20, 40))):
        before = topic.writer(now_ms)
        before.copied(T, first, count, first)
        topic.take_over(before)
    owner = topic.writer(500_000)
    owner.lost(T, lost(0, 60), None)
    topic.take_over(owner)
    topic.copied(owner, 60, 10, 0)
    assert topic.place(50) == Place(0, True, loss=topic.store.loss(T))
    return handed_over


def test_a_loss_page_under_a_late_page_is_restored_before_the_note_of_the_next_owner() -> None:
    topic = Topic()
    topic.append(_lost_by_a_former_owner(topic))

    following = topic.writer(900_000)
    following.copied(T, 70, 10, 10)
    topic.note_owners(following)
    assert topic.compacted().place(50) == Place(0, True, loss=topic.store.loss(T))
    topic.write(following)
    assert topic.compacted().place(50) == Place(0, True, loss=topic.store.loss(T))


def test_an_owner_restores_a_loss_page_of_a_former_owner_for_readers_from_scratch() -> None:
    topic = Topic()
    handed_over = _lost_by_a_former_owner(topic)
    owner = topic.writer(900_000)
    owner.copied(T, 70, 10, 10)
    topic.take_over(owner)
    topic.append(handed_over)

    owner.read_begins()
    owner.has_read(topic.read())
    topic.write(owner)

    for found in (topic, topic.compacted()):
        loss = topic.store.loss(T)
        assert found.place(50) == Place(0, True, loss=loss)
        assert found.place(60) == Place(0, True, loss=loss)  # what was copied in between
        assert found.place(75) == Place(15, True, loss=loss)


def test_a_page_that_its_successor_deleted_is_not_missed_by_the_next_one() -> None:
    topic = Topic()
    first = topic.writer(1_000)
    first.copied(T, 0, 20, 0)
    topic.take_over(first)
    first.lost(T, lost(15, 20), None)
    topic.copied(first, 20, 10, 15)
    second = topic.writer(200_000)
    second.copied(T, 30, 10, 25)
    topic.take_over(second)
    third = topic.writer(400_000)

    topic.delete(0)  # the source does not have its records any more
    third.read_begins()
    third.has_read(topic.read())
    third.copied(T, 40, 10, 35)
    topic.take_over(third)

    for offset, target in ((25, 20), (35, 30), (45, 40)):
        place = topic.place(offset)
        assert place is not None
        assert (place.offset, place.exact) == (target, True)


def test_an_expired_page_that_the_owner_deleted_is_not_taken_for_lost_by_the_next_one() -> None:
    topic = Topic()
    first = MapWriter(FakeClock(now_ms=1_000))
    first.has_read(topic.read())
    first.copied(T, 0, 20, 0)
    topic.take_over(first)
    topic.write(first)
    first.lost(T, lost(15, 20), None)
    for n in range(PAGE_SEGMENTS + 1):  # the last one begins a page
        first.copied(T, 20 + 2 * n, 1, 15 + n)
    topic.write(first)
    loss, end = topic.store.loss(T), 20 + 2 * PAGE_SEGMENTS
    second = MapWriter(FakeClock(now_ms=200_000))
    second.has_read(topic.read())

    topic.delete(20)  # by the first one, as the source begins later now
    second.read_begins()
    second.has_read(topic.read())
    second.source_begins(T, end)
    second.copied(T, end + 1, 10, 16 + PAGE_SEGMENTS)
    topic.take_over(second)
    topic.write(second)

    written = [value for key, value in topic.records if key == page_key(*T, 20)]
    assert written[-1] is None
    assert topic.store.loss(T) == loss
    assert topic.place(end) == Place(15 + PAGE_SEGMENTS, True, loss=loss)


def test_what_was_wrong_once_is_not_repaired_after_its_writer_wrote_what_counts() -> None:
    topic = Topic()
    mine = topic.writer(1_000)
    mine.copied(T, 0, 50, 0)
    topic.take_over(mine)
    mine.lost(T, lost(20, 50), None)
    topic.write(mine)
    mine.forget(T)
    other = topic.writer(500_000)
    other.copied(T, 50, 10, 20)
    topic.take_over(other)
    topic.delete(0)
    mine.read_begins()
    mine.has_read(topic.read())
    other.lost(T, lost(5, 60), None)
    topic.write(other)
    led_to = topic.place(30)
    mine.read_begins()
    mine.has_read(topic.read())

    mine.copied(T, 60, 10, 5)
    topic.take_over(mine)
    for found in (topic.place(30), topic.compacted().place(30)):
        assert found is not None
        assert led_to is not None
        assert (found.loss, found.offset <= led_to.offset) == (led_to.loss, True)


def test_no_page_is_written_before_it_is_known_what_others_wrote() -> None:
    """A compacted topic would keep it under the key of a page that counts."""
    topic = Topic()
    ahead = topic.writer(1_060_000)
    topic.copied(ahead, 0, 1000, 0)
    behind = MapWriter(FakeClock(now_ms=1_020_000))
    topic.copied(behind, 0, 10, 1000)
    assert topic.compacted().place(500) == Place(500, True)
    behind.has_read(topic.read())
    topic.write(behind)
    assert topic.compacted().place(5) == Place(1005, True)


def test_nothing_is_deleted_while_it_is_read_what_others_wrote() -> None:
    topic = Topic()
    returning = topic.writer(1000)
    topic.copied(returning, 0, 10, 0)
    returning.forget(T)
    other = topic.writer(2000)
    other.lost(T, lost(0, 10), None)
    topic.write(other)
    returning.reads()
    topic.copied(returning, 10, 10, 0)
    # The page that it knows under this key is the other's loss page by now.
    assert returning.useless(T, 10) == []


def test_after_a_loss_no_sync_of_a_worker_that_died_counts() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 0, 10, 0)
    # It copied on up to 20, sent a sync of 15, and died. The target ends at 4 then.
    successor = topic.writer(2000)
    assert successor.lost(T, lost(4, 10), None)
    topic.write(successor)
    place = topic.place(17, 15, 15)
    assert place is not None
    assert place.offset == 4


def test_a_loss_before_every_page_leads_nobody_beyond_the_end() -> None:
    """A worker had copied up to 27, and died before it wrote a page. The next one began there."""
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 27, 20, 27)
    assert writer.lost(T, lost(9, 47), None)
    topic.write(writer)
    assert topic.place(16, 14, 12) == Place(0, False, 16, 1001)
    assert topic.place(16, 5, 4) == Place(5, False, 10, 1001)


def test_a_loss_before_every_page_is_still_known_when_its_page_was_copied_over() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    assert writer.lost(T, lost(1, 25), None)
    topic.write(writer)
    topic.copied(writer, 25, 10, 1)  # its page has the key of the loss page
    assert topic.place(24) == Place(0, False, 24, 1001)
    assert topic.place(24, 10, 11) == Place(0, False, 24, 1001)


def test_a_loss_before_the_map_was_read_is_known_when_its_page_was_copied_over() -> None:
    topic, writer = Topic(), MapWriter(FakeClock(now_ms=1000))
    writer.lost(T, lost(0, 10), (0, 0))
    writer.copied(T, 0, 9, 0)
    writer.has_read(topic.read())
    topic.write(writer)
    book = CheckpointBook()
    assert book.emit(Checkpoint("g", "t", 0, 10, 10), Place(10, True))
    place = topic.place(10)
    assert place is not None
    assert book.emit(Checkpoint("g", "t", 0, 10, place.offset), place)


def test_a_source_that_was_created_again_before_the_map_was_read_continues_after_its_copy() -> None:
    topic = Topic()
    before = topic.writer(1000)
    topic.copied(before, 0, 40, 0)
    after = MapWriter(FakeClock(now_ms=2000))
    after.lost(T, Loss(LossKind.SOURCE_RECREATED, LossPolicy.REPORT, T, T, 0, 40, 40, 0), None)
    after.copied(T, 4, 10, 40)
    after.has_read(topic.read())
    topic.write(after)
    assert topic.place(3) == Place(40, True, loss=topic.store.loss(T))
    assert topic.place(8) == Place(44, True, loss=topic.store.loss(T))


def test_a_source_that_was_created_again_and_has_no_map_yet_needs_no_page_for_that() -> None:
    topic, writer = Topic(), MapWriter(FakeClock(now_ms=1000))
    writer.lost(T, Loss(LossKind.SOURCE_RECREATED, LossPolicy.REPORT, T, T, 0, 40, 40, 0), None)
    writer.copied(T, 4, 10, 40)
    writer.has_read(topic.read())
    topic.write(writer)
    assert [key for key, _ in topic.records] == [page_key(*T, 4)]


def test_a_loss_begins_where_a_page_that_was_just_written_says() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    for number in range(PAGE_SEGMENTS + 1):
        writer.copied(T, 2 * number, 1, number)
    topic.write(writer)
    assert writer.lost(T, lost(600, 2050), None)
    topic.write(writer)
    assert topic.place(1100) == Place(550, True, loss=1001)
    assert topic.place(1300) == Place(600, True, loss=1001)


def test_a_loss_that_was_copied_over_is_still_known() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 0, 10, 1)
    writer.lost(T, lost(0, 10), (0, 0))
    topic.write(writer)
    topic.copied(writer, 0, 10, 0)  # its page has the key of the loss page
    assert topic.place(5) == Place(5, True, loss=1001)
    assert topic.compacted().place(5) == Place(5, True, loss=1001)


def test_a_loss_page_is_deleted_with_the_records_that_were_lost() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 0, 10, 0)
    writer.lost(T, lost(4, 10), None)
    topic.copied(writer, 0, 10, 4)
    successor = topic.writer(2000)
    topic.copied(successor, 20, 10, 14)
    # Were it to stay, it would answer where the pages that overrule it are deleted.
    assert successor.useless(T, 20) == [page_key(*T, 4), page_key(*T, 0)]


def test_a_loss_note_that_could_not_be_written_is_due_again() -> None:
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 0, 10, 0)
    writer.lost(T, lost(0, 10), (0, 0))
    writer.copied(T, 0, 10, 0)
    writer.failed(writer.due([T]))
    topic.write(writer)
    assert topic.place(5) == Place(5, True, loss=1001)


def test_of_a_range_that_was_copied_twice_the_later_copy_is_lost_first() -> None:
    topic = Topic()
    first = topic.writer(1000)
    first.copied(T, 0, 10, 0)
    topic.copied(first, 20, 20, 10)
    second = topic.writer(2000)
    topic.copied(second, 30, 20, 30)  # 30 to 39 were at 20 to 29 before
    assert second.lost(T, lost(28, 50), None)
    topic.write(second)
    for offset in (30, 35, 38, 45):
        place = topic.place(offset)
        assert place is not None
        assert place.offset <= 20


def test_a_page_that_a_frozen_worker_writes_late_does_not_replace_its_successors() -> None:
    topic = Topic()
    frozen = topic.writer(1000)
    frozen.copied(T, 0, 10, 0)
    successor = topic.writer(2000)
    topic.copied(successor, 0, 20, 10)
    topic.write(frozen)
    assert topic.place(5) == Place(15, True)
    assert topic.read().pages[T][0].session == 2000
    assert topic.read().late[T] == {0}


def test_a_page_that_was_written_over_is_written_again_before_compaction() -> None:
    topic = Topic()
    frozen = topic.writer(1000)
    frozen.copied(T, 0, 10, 0)
    successor = topic.writer(2000)
    topic.copied(successor, 0, 20, 10)
    topic.write(frozen)
    successor.has_read(topic.read())
    topic.write(successor)
    assert topic.compacted().place(5) == Place(15, True)


def test_a_page_is_not_deleted_because_a_read_ended_before_it_was_written() -> None:
    """Without the loss page groups would go past the end, as those who read of the loss already
    count on it."""
    topic = Topic()
    writer = topic.writer(1000)
    topic.copied(writer, 0, 20, 0)
    found = topic.read()
    assert writer.lost(T, lost(0, 20), (0, 0))
    in_flight = writer.due([T])
    writer.has_read(found)
    again = writer.due([T])
    assert [each.delete for each in again] == [{}]
    assert [each.pages for each in again] == [each.pages for each in in_flight]


def test_pages_of_a_predecessor_stay_if_the_first_read_of_the_topic_fails() -> None:
    topic = Topic()
    first = topic.writer(1000)
    topic.copied(first, 0, 20, 0)
    second = MapWriter(FakeClock(now_ms=2000))
    second.has_read(MapTopicReading("map", NOTHING_READ).unread())
    topic.copied(second, 20, 10, 20)
    second.has_read(topic.read())
    topic.write(second)
    assert topic.place(5) == Place(5, True)


def test_partitions_are_written_in_their_order() -> None:
    """Not in one that differs from process to process: a simulated run follows from its seed."""
    writer = MapWriter(FakeClock(now_ms=1000))
    partitions = [(topic, number) for topic in ("t", "u", "v") for number in range(4)]
    for key in reversed(partitions):
        writer.copied(key, 0, 10, 0)
    writer.has_read(Topic().read())
    assert list(writer.due_owners(())) == partitions
    assert [due.key for due in writer.due(())] == partitions


def test_what_a_frozen_worker_writes_with_a_later_session_is_deleted() -> None:
    topic = Topic()
    frozen = topic.writer(9000)
    frozen.copied(T, 0, 10, 0)
    successor = topic.writer(2000)
    topic.copied(successor, 0, 20, 10)
    topic.write(frozen)
    successor.has_read(topic.read())
    topic.write(successor)
    assert topic.place(5) == Place(15, True)
    assert topic.compacted().place(5) == Place(15, True)


def test_what_a_frozen_worker_writes_over_pages_of_its_predecessor_is_deleted() -> None:
    topic = Topic()
    first = topic.writer(1000)
    topic.copied(first, 10, 10, 20)
    frozen = topic.writer(5000)
    frozen.copied(T, 0, 20, 0)
    successor = topic.writer(9000)
    topic.copied(successor, 20, 10, 30)
    topic.write(frozen)
    assert topic.place(15) == Place(15, True), "an earlier copy"
    successor.has_read(topic.read())
    topic.write(successor)
    assert topic.place(15) == Place(25, True)


def test_a_loss_page_that_others_wrote_over_or_deleted_is_written_again() -> None:
    """Otherwise pages from before the loss count again, and lead groups past what came after it."""
    for late_page in (True, False):
        topic = Topic()
        frozen = topic.writer(1000)
        frozen.copied(T, 0, 10, 0)
        first = topic.writer(2000)
        first.copied(T, 0, 20, 0)
        topic.copied(first, 19, 9, 20)
        assert first.lost(T, lost(0, 28), (0, 0))
        topic.write(first)
        second = MapWriter(FakeClock(now_ms=9000))
        if late_page:
            topic.write(frozen)
            second.has_read(topic.read())
        else:
            second.has_read(topic.read())
            topic.delete(0)
            second.has_read(topic.read())
        topic.copied(second, 28, 10, 0)
        for offset in (5, 21):
            assert topic.place(offset) == Place(0, True, loss=2002)
            assert topic.compacted().place(offset) == Place(0, True, loss=2002)
