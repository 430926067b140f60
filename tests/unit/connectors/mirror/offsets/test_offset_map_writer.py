"""Pages of a loss, and of a worker whose clock is behind, lead every reader right."""

from __future__ import annotations

from connect.clients.librdkafka.topic_log import LogRecord
from connect.clock import FakeClock
from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.formats import Checkpoint, OffsetSync
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.offset_map_trim import NOTHING_READ, MapTopic, MapTopicReading
from connectors.mirror.offsets.offset_map_writer import MapWriter
from connectors.mirror.offsets.translation import Place, best_place

T = ("t", 0)


class Topic:
    """The map's topic, and who follows it."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.store = OffsetMapStore(lambda _: {})

    def write(self, writer: MapWriter) -> None:
        for due in writer.due([T]):
            for key, value in due.records():
                self.store.take(key, value, len(self.records))
                self.records.append((key, value))

    def read(self) -> MapTopic:
        reading = MapTopicReading("map", NOTHING_READ)
        for at, (key, value) in enumerate(self.records):
            reading.take(LogRecord(0, at, key, value, 0, ()))
        return reading.read({0: len(self.records)})

    def place(self, offset: int, *sync: int) -> Place | None:
        known = self.store.known({T: [offset]}).get((T, offset))
        return best_place(known, OffsetSync(*T, *sync) if sync else None, offset)


def lost(first: int, position: int) -> Loss:
    return Loss(LossKind.TARGET_LOSS, LossPolicy.REPORT, T, T, first, position, position, position)


def test_after_a_loss_groups_go_on_at_what_comes_next_whatever_older_syncs_say() -> None:
    topic, writer = Topic(), MapWriter(FakeClock(now_ms=1000))
    writer.has_read(topic.read())
    writer.copied(T, 0, 950, 0)
    topic.write(writer)
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
    writer.copied(T, 950, 10, 852)
    topic.write(writer)
    assert topic.place(955) == Place(857, True, loss=1001)
    for offset, target in ((907, 852), (950, 852), (960, 862)):
        place = topic.place(offset, 907, 907)
        assert place is not None
        assert place.offset == target
        assert book.emit(Checkpoint(f"g{offset}", "t", 0, offset, target), place)
    assert book.void()["g907"] == {("t", 0): 907}


def test_pages_of_a_worker_whose_clock_is_behind_count() -> None:
    topic = Topic()
    ahead = MapWriter(FakeClock(now_ms=1_060_000))
    ahead.has_read(topic.read())
    ahead.copied(T, 0, 1000, 0)
    topic.write(ahead)
    behind = MapWriter(FakeClock(now_ms=1_020_000))
    behind.copied(T, 1000, 5000, 1000)
    topic.write(behind)  # before it has read what the other wrote
    behind.has_read(topic.read())
    topic.write(behind)
    behind.copied(T, 6000, 10, 6000)
    topic.write(behind)
    assert topic.place(3500) == Place(3500, True)
    assert topic.place(6005) == Place(6005, True)
