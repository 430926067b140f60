"""A page that a frozen worker writes late is found by the check, and written over."""

from __future__ import annotations

from random import Random

from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key, page_span
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter, Reached
from tests.simulation.groups.topics import Topics, WorkerTopics
from tests.support.fake_clock import FakeClock

T = ("t", 0)


def test_a_late_page_is_written_over_by_the_check_after_300_seconds() -> None:
    topics, clock = Topics(), FakeClock(now_ms=1_000_000)
    worker = WorkerTopics(topics, Random(0))
    config = SourceConfig.from_properties(
        {
            "name": "m",
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
        }
    )
    books = OffsetSyncWriter(config, None, clock, worker)

    def turn(seconds: int = 0) -> None:
        # A worker that does nothing for longer counts as frozen, and must not correct others.
        for _ in range(seconds):
            clock.advance(1)
            books.poll()
        books.prepare([Reached(T, 20, 0)])
        worker.producer.deliver(1 << 30)

    def newest() -> int:
        found = [value for key, value in topics.map.records.values() if key == page_key(*T, 0)]
        assert found[-1] is not None
        return page_span(0, found[-1]).session

    assert worker.reading is not None
    worker.reading.finish()
    books.copied(T, [(0, 20)], 10)
    turn()
    own = newest()
    topics.map.append(page_key(*T, 0), MapPage(own - 1, [Segment(0, 0, 10)]).encode())
    turn(299)
    assert not worker.reads
    turn(1)
    assert worker.reads
    worker.reading.finish()
    turn()
    assert newest() == own
