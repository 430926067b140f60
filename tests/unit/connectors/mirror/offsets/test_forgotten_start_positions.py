"""A start position that is deleted between two reads of a start is found all the same."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from connect.protocol.messages import TopicPartition
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.map_notes import Note, note_key
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.start_positions import (
    FORGET_ALL,
    FORGET_ALL_VALUE,
    NOWHERE,
    FirstPosition,
)
from tests.simulation.groups.topics import Topics, WorkerTopics
from tests.support.fake_clock import FakeClock

T = ("t", 0)
KEY = note_key(Note.START, T)
BEGUN = FirstPosition(7, -1, None, "m")
FIVE_MINUTES_MS = 300_000

Records = list[tuple[bytes, bytes | None]]


def _found(
    records: Records, now_ms: int = 0, *, reads: int = 1
) -> Mapping[TopicPartition, FirstPosition] | None:
    """The start positions that a task finds in the map's topic at this time, if its records were
    written at 0 ms. With a second read its partitions change while it reads."""
    topics = Topics()
    for key, value in records:
        topics.map.append(key, value)
    config = SourceConfig.from_properties(
        {
            "name": "m",
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
        }
    )
    worker = WorkerTopics(topics, Random(0))
    writer = OffsetSyncWriter(config, None, FakeClock(now_ms=now_ms), worker)
    assert writer.first_positions() is None
    for again in range(reads):
        assert worker.reading is not None
        if again + 1 < reads:
            writer.look_again()
        worker.reading.finish()
        assert reads == again + 1 or writer.first_positions() is None
    return writer.first_positions()


def test_one_that_was_deleted_a_moment_ago_is_found() -> None:
    """Seed 676 of the simulator: a worker that was frozen stored its first offset, and deleted its
    start position, when its successor had read the one and not the other."""
    assert _found([(KEY, BEGUN.encode()), (KEY, None)]) == {T: BEGUN}
    assert BEGUN.holds("m", mark=-1)
    assert not BEGUN.holds("m", mark=0)  # who has seen the offset does not use it


def test_one_that_was_deleted_before_the_task_read_the_topic_again_is_found() -> None:
    """Its partitions changed while it read, so it read again before it used anything."""
    assert _found([(KEY, BEGUN.encode()), (KEY, None)], reads=2) == {T: BEGUN}


def test_one_that_was_deleted_long_ago_is_not_found() -> None:
    assert _found([(KEY, BEGUN.encode()), (KEY, None)], FIVE_MINUTES_MS) == {}


@pytest.mark.parametrize(
    "forgotten",
    [[(FORGET_ALL, FORGET_ALL_VALUE)], [(KEY, NOWHERE.encode()), (KEY, None)]],
    ids=["all", "one"],
)
@pytest.mark.parametrize("stored_before", [False, True])
def test_what_a_user_reset_holds_no_longer(forgotten: Records, stored_before: bool) -> None:
    records: Records = [(KEY, BEGUN.encode()), *([(KEY, None)] if stored_before else [])]
    found = _found([*records, *forgotten])
    assert found is not None
    assert not any(first.holds("m", mark=-1) for first in found.values())


def test_the_newest_one_counts() -> None:
    again = FirstPosition(9, -1, None, "m")
    records: Records = [(KEY, BEGUN.encode()), (KEY, None), (KEY, again.encode())]
    assert _found(records) == {T: again}
