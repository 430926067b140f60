"""When both engines ask for the IDs of their topics."""

from __future__ import annotations

from connectors.mirror.copy.topic_looks import TopicLooks


def test_topic_ids_are_requested_every_20_seconds() -> None:
    looks = TopicLooks(100.0)
    times = (100.0, 119.9, 120.0, 120.1, 139.9, 145.0, 164.9, 165.0)
    assert [now for now in times if looks.due(now, 1)] == [120.0, 145.0, 165.0]


def test_very_many_partitions_wait_for_metadata_max_age() -> None:
    looks = TopicLooks(0.0)
    assert not looks.due(20.0, 2_001)
    assert looks.due(40.0, 2_000)
