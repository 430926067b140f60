"""What a frozen worker writes late, or deletes, does not last."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.map_notes import NO_OWNER, Note, Owner, note_key
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key, page_span
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.source_offsets import Reached
from connectors.mirror.offsets.translation import Place
from tests.simulation.groups.topics import Topics, WorkerTopics
from tests.support.fake_clock import FakeClock

T = ("t", 0)


class Writing:
    """A task's writer. `reads`: it has read the map's topic."""

    def __init__(
        self, *, reads: bool = True, topics: Topics | None = None, now_ms: int = 1_000_000
    ) -> None:
        self.topics, self.clock = topics or Topics(), FakeClock(now_ms=now_ms)
        self.worker = WorkerTopics(self.topics, Random(0))
        config = SourceConfig.from_properties(
            {
                "name": "m",
                "connector.class": "MirrorSourceConnector",
                "source.cluster.alias": "A",
                "target.cluster.alias": "B",
            }
        )
        self.sync_writer = OffsetSyncWriter(config, None, self.clock, self.worker)
        if reads:
            self.read()

    def read(self) -> None:
        assert self.worker.reading is not None
        self.worker.reading.finish()

    def turn(self, seconds: int = 0, *, position: int = 20, log_start: int = 0) -> None:
        # A worker that does nothing for longer counts as frozen, and must not correct others.
        for _ in range(seconds):
            self.clock.advance(1)
            self.sync_writer.poll()
        self.sync_writer.prepare([Reached(T, position, log_start)])
        self.worker.producer.deliver(1 << 30)

    def own(self, *, position: int = 20) -> None:
        """Commit for the first time: it takes the partition over, reads that it did, and writes."""
        self.turn(position=position)
        self.read()
        self.turn(position=position)

    def owners(self) -> list[Owner]:
        records = self.topics.map.records.values()
        noted = [value for key, value in records if key == note_key(Note.OWNER, T)]
        return [Owner.decode(value) for value in noted if value is not None]

    def facts(self) -> LogIdentity | None:
        """The newest facts of the partition's logs."""
        records = self.topics.map.records.values()
        noted = [value for key, value in records if key == note_key(Note.FACTS, T)]
        return LogIdentity.decode(noted[-1]) if noted and noted[-1] is not None else None

    def place(self, offset: int) -> Place | None:
        """Where a reader of the whole topic sends groups."""
        store = OffsetMapStore(lambda _: {})
        for at, (key, value) in self.topics.map.records.items():
            store.take(key, value, at)
        known = store.known({T: [offset]}).get((T, offset))
        return None if known is None else known.place

    def page(self, first: int = 0) -> bytes | None:
        """The newest record under the key of the page that begins with this source offset."""
        records = self.topics.map.records.values()
        return [value for key, value in records if key == page_key(*T, first)][-1]

    def has_page(self) -> bool:
        return any(key == page_key(*T, 0) for key, _ in self.topics.map.records.values())

    def session(self, first: int = 0) -> int:
        page = self.page(first)
        assert page is not None
        return page_span(first, page).session


def test_a_late_page_is_written_over_by_the_check_after_300_seconds() -> None:
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    own = made.session()
    made.topics.map.append(page_key(*T, 0), MapPage(own - 1, [Segment(0, 0, 10)]).encode())
    made.turn(299)
    assert not made.worker.reads
    made.turn(1)
    assert made.worker.reads
    made.read()
    made.turn()
    assert made.session() == own


def test_after_a_loss_a_late_page_is_deleted_at_once() -> None:
    """It would lead groups past the end that the target has now."""
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    late = made.session() + 1_000
    made.topics.map.append(page_key(*T, 5), MapPage(late, [Segment(5, 15, 10)]).encode())
    loss = Loss(LossKind.TARGET_RECREATED, LossPolicy.REPORT, T, T, 0, 30, 20, 20)
    made.sync_writer.lost(T, loss, None)
    made.turn()
    assert not made.worker.reads  # the loss page itself is in flight
    made.turn()
    assert made.worker.reads
    made.read()
    made.turn()
    assert made.page(5) is None


def test_a_task_that_stops_at_once_writes_its_pages_once_it_has_read_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Writing(reads=False)
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.turn()
    assert not made.has_page()
    producer = made.worker.producer
    monkeypatch.setattr(producer, "poll", lambda timeout: producer.deliver(1 << 30))
    monkeypatch.setattr(made.worker.reading, "wait", lambda seconds: made.read())
    made.sync_writer.close()
    assert made.page() is not None


def test_pages_wait_30_seconds_for_a_topic_that_cannot_be_read_or_does_not_exist() -> None:
    made = Writing(reads=False)
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.turn(29)
    assert not made.has_page()
    made.turn(1)
    assert made.has_page()


def test_a_worker_that_stood_still_deletes_no_page_before_it_has_read_what_others_wrote() -> None:
    """Its successor may have written a loss page under the key."""
    made = Writing()
    made.sync_writer.copied(T, [(0, 40)], 0)
    made.sync_writer.copied(T, [(20, 20)], 40)  # once more, in a page of its own
    made.own(position=40)
    made.clock.advance(11)
    made.turn(1, position=40, log_start=40)
    assert made.page() is not None
    made.turn(300, position=40, log_start=40)
    made.read()
    made.turn(1, position=40, log_start=40)
    assert made.page() is None


def test_a_task_notes_that_it_owns_a_partition_before_its_first_page() -> None:
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    keys = [key for key, _ in made.topics.map.records.values()]
    assert keys == [note_key(Note.OWNER, T), page_key(*T, 0)]
    assert made.owners() == [Owner(made.session(), NO_OWNER)]


def test_what_a_frozen_worker_had_sent_does_not_count_once_another_owns_the_partition() -> None:
    """Its clock is an hour ahead."""
    frozen = Writing(now_ms=1_000_000 + 3_600_000)
    frozen.sync_writer.copied(T, [(0, 20)], 10)
    frozen.own()
    frozen.sync_writer.copied(T, [(20, 20)], 30)
    frozen.sync_writer.prepare([Reached(T, 40, 0)])  # on its way
    after = Writing(topics=frozen.topics)
    after.sync_writer.copied(T, [(20, 20)], 50)
    after.own(position=40)
    frozen.worker.producer.deliver(1 << 30)
    assert after.place(25) == Place(55, True)
    assert after.place(5) == Place(15, True)


@pytest.mark.parametrize("owned", [True, False])
def test_a_worker_that_stood_still_writes_nothing_of_what_another_owns(owned: bool) -> None:
    """Whether or not it had written a page. Its clock is an hour ahead."""
    frozen = Writing(now_ms=1_000_000 + 3_600_000)
    frozen.sync_writer.copied(T, [(0, 20)], 10)
    if owned:
        frozen.own()
    after = Writing(topics=frozen.topics)
    after.sync_writer.copied(T, [(0, 10)], 50)
    after.own(position=10)
    written = frozen.topics.map.end
    frozen.clock.advance(11)
    frozen.turn()
    assert frozen.topics.map.end == written
    frozen.read()
    frozen.sync_writer.copied(T, [(20, 20)], 30)
    frozen.turn(position=40)
    frozen.turn(300, position=40)
    assert frozen.topics.map.end == written


def test_a_standstill_does_not_let_an_offset_be_stored_before_its_page() -> None:
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.clock.advance(11)
    prepared = made.sync_writer.prepare([Reached(T, 20, 0)])
    assert not prepared.done()
    for _ in range(2):  # what others wrote, and then the note of the owner
        made.read()
        made.sync_writer.poll()
        made.worker.producer.deliver(1 << 30)
    assert prepared.done()
    assert made.has_page()


def test_of_two_that_take_a_partition_at_once_the_one_that_has_it_prevails() -> None:
    """The other one ends soon, as it is told that it has lost it."""
    owner, other = Writing(reads=False), Writing(reads=False, now_ms=5_000_000)
    other.topics = other.worker._topics = owner.topics
    for each in (owner, other):
        assert each.worker.reading is not None
        each.worker.reading._topic = owner.topics.map
        each.worker.producer._topics = owner.topics
        each.read()
        each.sync_writer.copied(T, [(0, 20)], 10)
    other.turn()
    owner.turn()
    assert owner.owners()[0].before == owner.owners()[1].before == NO_OWNER
    assert not owner.has_page()
    owner.read()
    owner.own()
    assert owner.owners()[-1].before == other.owners()[0].session
    assert owner.session() == owner.owners()[-1].session


def test_pages_wait_until_the_topic_shows_that_their_writer_owns_the_partition() -> None:
    """The note of a frozen worker, whose clock is an hour ahead, comes first. Pages of its
    successor would not count, nor tell of the loss."""
    frozen = Writing(now_ms=1_000_000 + 3_600_000)
    after = Writing(topics=frozen.topics)
    frozen.sync_writer.copied(T, [(0, 20)], 10)
    frozen.turn()
    frozen.read()
    frozen.sync_writer.prepare([Reached(T, 20, 0)])
    frozen.worker.producer.deliver(1 << 30)
    loss = Loss(LossKind.TARGET_LOSS, LossPolicy.REPORT, T, T, 15, 30, 20, 20)
    after.sync_writer.lost(T, loss, (0, 10))
    prepared = after.sync_writer.prepare([Reached(T, 20, 0)])
    after.worker.producer.deliver(1 << 30)
    assert not prepared.done()
    after.read()
    after.own()
    assert prepared.done()
    assert after.place(10) == Place(10, True, loss=after.session())


def test_a_note_of_a_frozen_worker_that_does_not_count_is_noted_over() -> None:
    """Compaction keeps it in place of the owner's, and then pages after it would not count. Until
    compaction has reached the newer notes, it is there with them."""
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    records = made.topics.map.records
    owner = next(at for at, (key, _) in records.items() if key == note_key(Note.OWNER, T))
    late = Owner(made.session() + 3_600_000, NO_OWNER)
    made.topics.map.append(note_key(Note.OWNER, T), late.encode())
    made.sync_writer.copied(T, [(20, 20)], 30)
    made.turn(300, position=40)
    made.read()
    made.own(position=40)
    assert made.place(25) == Place(35, True)
    del records[owner]
    assert made.place(25) == Place(35, True)
    made.topics.map.compact(made.topics.map.end)
    assert made.place(25) == Place(35, True)


def test_pages_and_offsets_wait_2_seconds_for_a_read_of_their_owner() -> None:
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    prepared = made.sync_writer.prepare([Reached(T, 20, 0)])
    made.worker.producer.deliver(1 << 30)
    for _ in range(2):
        assert not made.has_page()
        assert not prepared.done()
        made.clock.advance(1)
        made.sync_writer.poll()
        made.worker.producer.deliver(1 << 30)
    assert made.has_page()
    assert prepared.done()


def test_pages_do_not_wait_for_their_owner_where_the_topic_cannot_be_read() -> None:
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.turn()
    assert made.worker.reading is not None
    made.worker.reading.fail()
    made.sync_writer.poll()
    made.worker.producer.deliver(1 << 30)
    assert made.has_page()
    assert len(made.owners()) == 1


def test_a_task_that_stops_writes_pages_whose_owner_it_did_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.turn()
    assert not made.has_page()
    producer = made.worker.producer
    monkeypatch.setattr(producer, "poll", lambda timeout: producer.deliver(1 << 30))
    made.sync_writer.close()
    assert made.has_page()


@pytest.mark.parametrize("others", [0, 50])
def test_a_task_writes_its_pages_to_a_topic_that_was_created_again(others: int) -> None:
    """Whether or not that one is longer by now than the former one was."""
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    made.topics.map.create_again()
    for number in range(others):
        made.topics.map.append(
            page_key("other", number, 0), MapPage(1, [Segment(0, 0, 1)]).encode()
        )
    made.turn(300)
    made.read()
    made.own()
    assert made.owners() == [Owner(made.session(), NO_OWNER)]
    assert made.place(5) == Place(15, True)


def test_a_task_does_not_write_pages_again_that_a_topic_created_again_has() -> None:
    """If it died while it did so, checkpoints would go back: some pages would overrule the rest."""
    made = Writing()
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    session = made.session()
    made.topics.map.create_again()
    made.sync_writer.copied(T, [(20, 20)], 50)
    made.turn(position=40)
    made.turn(300, position=40)
    made.read()
    made.own(position=40)
    assert [key for key, _ in made.topics.map.records.values()] == [page_key(*T, 0)]
    made.sync_writer.copied(T, [(40, 20)], 90)
    made.own(position=60)
    assert made.owners() == [Owner(session, NO_OWNER)]
    assert made.session() == session


@pytest.mark.parametrize("others", [0, 50])
def test_a_task_keeps_what_another_wrote_to_a_topic_that_was_created_again(others: int) -> None:
    """The task had the partition, and gets it back. The other one's clock is an hour behind, so its
    pages have earlier sessions than those of the former topic."""
    made = Writing(now_ms=1_000_000 + 3_600_000)
    made.sync_writer.lost(T, Loss(LossKind.TARGET_LOSS, LossPolicy.REPORT, T, T, 0, 9, 0, 0), None)
    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    made.sync_writer.forget(T)
    made.topics.map.create_again()
    other = Writing(topics=made.topics)
    other.sync_writer.copied(T, [(0, 30)], 10)
    other.own(position=30)
    for number in range(others):
        made.topics.map.append(
            page_key("other", number, 0), MapPage(1, [Segment(0, 0, 1)]).encode()
        )
    made.sync_writer.look_again()
    made.read()
    made.sync_writer.copied(T, [(30, 10)], 40)
    made.own(position=40)
    assert [made.place(offset) for offset in (5, 35)] == [Place(15, True), Place(45, True)]
    assert made.owners()[1:] == [Owner(made.session(30), made.owners()[0].session)]


def test_what_is_handed_over_to_a_running_task_comes_with_the_facts_of_its_logs() -> None:
    """What this task read of the logs when it started would hide a truncation in between."""
    made = Writing()
    other = Writing(topics=made.topics)
    facts = LogIdentity(20, 20, 30, UUID(int=1), UUID(int=2), ((0, 0), (3, 12)), ((19, 29),))
    other.sync_writer.copied(T, [(0, 20)], 10)
    other.sync_writer.prepare([Reached(T, 20, 0, facts)])
    other.worker.producer.deliver(1 << 30)
    other.read()
    other.sync_writer.prepare([Reached(T, 20, 0, facts)])
    other.worker.producer.deliver(1 << 30)
    known = made.sync_writer.facts()
    assert known is not None
    assert T not in known
    made.sync_writer.look_again()
    assert made.sync_writer.facts() is None, "they are being read"
    made.read()
    known = made.sync_writer.facts()
    assert known is not None
    assert known[T] == facts


def test_a_partition_that_leaves_while_the_topic_is_read_has_its_facts_to_the_end() -> None:
    """The topic is read again when the assignment changes, while the last offset of a partition
    that leaves is stored. Facts beside an earlier offset would not show the next task that the
    source was created again meanwhile."""
    made = Writing()
    early, last = (
        LogIdentity(end, end, 30, UUID(int=1), UUID(int=2), ((0, 0),), ((end - 1, 29),))
        for end in (20, 25)
    )

    def commit(position: int, facts: LogIdentity) -> None:
        made.sync_writer.prepare([Reached(T, position, 0, facts)])
        made.worker.producer.deliver(1 << 30)

    made.sync_writer.copied(T, [(0, 20)], 10)
    made.own()
    made.sync_writer.look_again()
    commit(20, early)
    assert made.facts() is None, "an earlier task's facts are not known yet"
    made.read()
    commit(20, early)
    assert made.facts() == early
    made.sync_writer.look_again()
    commit(25, last)
    assert made.sync_writer.facts() is None, "the topic is being read"
    assert made.facts() == last
    made.sync_writer.forget(T)
    commit(20, early)
    assert made.facts() == last, "another task may have it now"
