"""Which topics of a connector are recorded, and when again after a reset (KIP-558)."""

from __future__ import annotations

from connect.runtime.tasks.active_topics import ActiveTopics
from connect.storage.instance_id import InstanceId
from connect.storage.memory_status_store import MemoryStatusStore
from tests.support.fake_clock import FakeClock

TASK = InstanceId("c", 3)


def test_a_topic_is_recorded_once_with_the_task_that_used_it_first() -> None:
    store, clock = MemoryStatusStore(), FakeClock()
    topics = ActiveTopics(store, clock)
    topics.used(TASK, "t")
    recorded = store.get_topic("c", "t")
    assert recorded is not None
    assert (recorded.task, recorded.discovered_ms) == (3, clock.now_ms())
    clock.advance(5.0)
    topics.used(InstanceId("c", 4), "t")
    assert store.get_topic("c", "t") is recorded


def test_topics_in_use_are_recorded_again_after_a_reset() -> None:
    topics = ActiveTopics(MemoryStatusStore(), FakeClock())
    topics.used(TASK, "old")
    topics.used(TASK, "t")
    topics.reset("c")
    assert topics.of("c") == []
    topics.used(TASK, "t")
    assert topics.of("c") == ["t"]


def test_a_reset_leaves_the_topics_of_other_connectors() -> None:
    topics = ActiveTopics(MemoryStatusStore(), FakeClock())
    topics.used(TASK, "t")
    topics.used(InstanceId("d", 0), "t")
    topics.reset("c")
    assert (topics.of("c"), topics.of("d")) == ([], ["t"])
