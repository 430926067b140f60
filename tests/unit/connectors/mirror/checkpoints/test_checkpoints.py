"""Which groups are translated, which checkpoints are due, and what they look like to the worker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.clients.groups.consumer_groups import Committed
from connect.data import json_codec
from connect.errors import ConfigError, ConnectError, RetriableError
from connect.metrics.registry import MetricRegistry, MetricSample
from connect.plugin import AlteredOffset, OffsetValue
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.checkpoints.group_refresh import assignable, chunks, mirrored_groups
from connectors.mirror.checkpoints.metrics import CheckpointMetrics
from connectors.mirror.checkpoints.round import group_offsets, target_topic
from connectors.mirror.checkpoints.store import CheckpointBook
from connectors.mirror.checkpoints.task import CheckpointSchedule, checkpoint_record
from connectors.mirror.filters import DefaultTopicFilter
from connectors.mirror.formats import Checkpoint
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, translation_topics
from connectors.mirror.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from tests.support.fake_clock import FakeClock

PROPS = {
    "name": "MirrorCheckpointConnector",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
}


# Groups.


def test_a_group_counts_when_it_committed_an_offset_of_a_mirrored_topic() -> None:
    topics = DefaultTopicFilter({"topics": "t.*"})
    forgotten = Committed(None)
    committed: dict[str, dict[tuple[str, int], Committed] | ConnectError] = {
        "reads": {("t1", 0): Committed(5), ("x", 0): Committed(1)},
        "forgotten": {("t1", 0): forgotten},
        "elsewhere": {("x", 0): Committed(1)},
        "never": {},
        "unreadable": RetriableError("no answer"),
    }
    assert mirrored_groups(committed, topics) == ["forgotten", "reads", "unreadable"]


@pytest.mark.parametrize(
    ("count", "max_tasks", "sizes"),
    [(0, 3, []), (1, 3, [1]), (7, 3, [3, 2, 2]), (8, 3, [3, 3, 2]), (9, 3, [3, 3, 3]), (5, 1, [5])],
)
def test_groups_are_cut_as_java_cuts_them(count: int, max_tasks: int, sizes: list[int]) -> None:
    groups = [f"g{n}" for n in range(count)]
    cut = chunks(groups, max_tasks)
    assert [len(each) for each in cut] == sizes
    assert [group for each in cut for group in each] == groups


def test_ids_that_a_java_list_would_break_cannot_be_handed_to_tasks() -> None:
    assert all(map(assignable, ["g", "a b", "äöü", "g.1-2"]))
    assert not any(map(assignable, ["", "a,b", " a", "a "]))


def test_only_mirrored_topics_and_offsets_that_are_known_are_translated() -> None:
    committed = {
        "g": {
            ("t", 0): Committed(5, "note"),
            ("t", 1): Committed(None),
            ("x", 0): Committed(7),
        }
    }
    topics = DefaultTopicFilter({"topics": "t"})
    assert group_offsets(committed, topics) == [GroupOffset("g", "t", 0, 5, "note")]


def test_a_topic_that_came_from_the_target_has_its_own_name_there() -> None:
    policy = DefaultReplicationPolicy({})
    assert target_topic(policy, "A", "B", "t") == "A.t"
    assert target_topic(policy, "A", "B", "C.t") == "A.C.t"
    assert target_topic(policy, "A", "B", "B.t") == "t"
    keeps_names = IdentityReplicationPolicy({"source.cluster.alias": "A"})
    assert target_topic(keeps_names, "A", "B", "t") == "t"


# What is due.


def emits(*steps: tuple[int, int, bool]) -> list[bool]:
    """Whether each (upstream, downstream, exact) is due, one after the other."""
    book = CheckpointBook()
    return [
        book.emit(Checkpoint("g", "t", 0, up, down), Place(down, exact))
        for up, down, exact in steps
    ]


def test_a_checkpoint_is_due_when_it_is_the_first_or_further() -> None:
    assert emits((10, 5, True), (10, 5, True), (11, 6, True)) == [True, False, True]
    assert emits((10, 5, False), (12, 5, False), (13, 6, False)) == [True, False, True]


def test_a_group_that_went_back_on_the_source_goes_back_on_the_target() -> None:
    assert emits((10, 5, False), (9, 4, False), (9, 4, False)) == [True, True, False]


def test_what_is_not_exact_never_goes_back() -> None:
    assert emits((10, 5, True), (11, 3, False), (11, 5, False)) == [True, False, False]


def test_an_exact_place_counts_also_where_it_is_before_the_last_one() -> None:
    """The target's topic was made anew, say."""
    assert emits((10, 5, True), (11, 3, True), (11, 3, True)) == [True, True, False]


def test_a_checkpoint_from_before_a_loss_is_void_even_if_the_next_one_is_further() -> None:
    """Group sync may have committed it. The group moves back before the next round of that."""
    book, key = CheckpointBook(), ("t", 0)
    assert book.emit(Checkpoint("g", *key, 25, 20), Place(20, True))
    assert book.emit(Checkpoint("g", *key, 52, 29), Place(29, True, loss=7))
    assert book.emit(Checkpoint("g", *key, 25, 4), Place(4, True, loss=7))
    assert book.void() == {"g": {key: 20}}
    assert book.emit(Checkpoint("g", *key, 60, 40), Place(40, True, loss=7))
    assert book.void() == {"g": {key: 20}}
    book.settle(book.void())
    assert book.void() == {}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_after_a_restart_the_book_goes_on_as_if_there_had_been_none(
    pairs: list[tuple[int, int]],
) -> None:
    went_on, restarted = CheckpointBook(), CheckpointBook()
    half = len(pairs) // 2
    for up, down in pairs[:half]:
        checkpoint = Checkpoint("g", "t", 0, up, down)
        if went_on.emit(checkpoint, Place(down, False)):
            restarted.load(checkpoint)
    for up, down in pairs[half:]:
        checkpoint = Checkpoint("g", "t", 0, up, down)
        assert restarted.emit(checkpoint, Place(down, False)) == went_on.emit(
            checkpoint, Place(down, False)
        )
    assert restarted.groups() == went_on.groups()


def test_partitions_and_groups_are_kept_apart() -> None:
    book = CheckpointBook()
    every = [Checkpoint(g, t, p, 5, 5) for g in "ab" for t in "tu" for p in (0, 1)]
    assert all(book.emit(each, Place(5, False)) for each in every)
    assert [each for of_group in book.groups().values() for each in of_group.values()] == every


# To the worker.


def test_a_checkpoint_is_a_record_in_javas_bytes() -> None:
    record = checkpoint_record(
        Checkpoint("g1", "A.t", 2, 10, 11, "md"), "A.checkpoints.internal", 9
    )
    assert isinstance(record.key, bytes)
    assert isinstance(record.value, bytes)
    assert record.key.hex() == "000267310003412e7400000002"
    assert record.value.hex() == "0000000000000000000a000000000000000b00026d64"
    assert (record.topic, record.partition, record.timestamp_ms) == ("A.checkpoints.internal", 0, 9)
    assert record.headers == ()
    stored = json_codec.encode(["MirrorCheckpointConnector", record.source_partition])
    assert stored == b'["MirrorCheckpointConnector",{"partition":2,"topic":"A.t","group":"g1"}]'
    assert record.source_offset == {"offset": 0}


@pytest.mark.parametrize(
    ("location", "syncs", "offset_map"),
    [
        ("source", "mm2-offset-syncs.B.internal", "mm2-offset-map.B.internal"),
        ("target", "mm2-offset-syncs.A.internal", "mm2-offset-map.A.internal"),
    ],
)
def test_syncs_and_map_are_read_where_the_source_connector_writes_them(
    location: str, syncs: str, offset_map: str
) -> None:
    props = {
        **PROPS,
        "offset-syncs.topic.location": location,
        "source.cluster.bootstrap.servers": "source:1",
        "target.cluster.bootstrap.servers": "target:1",
    }
    topics = translation_topics(props)
    assert (topics.syncs, topics.map) == (syncs, offset_map)
    assert topics.properties["bootstrap.servers"] == f"{location}:1"


def checkpoint_samples(registry: MetricRegistry) -> list[MetricSample]:
    return [each for each in registry.collect() if each.group == "MirrorCheckpointConnector"]


def test_latency_is_told_for_each_group_and_partition_from_the_first_checkpoint_on() -> None:
    clock, registry = FakeClock(now_ms=1000), MetricRegistry()
    metrics = CheckpointMetrics(registry, "A", "B", clock)
    assert checkpoint_samples(registry) == []
    metrics.acknowledged("g", "A.t", 0, 900)
    metrics.acknowledged("g", "A.t", 0, 700)
    metrics.acknowledged("h", "A.t", 0, 990)
    first, second = checkpoint_samples(registry)
    assert first.tags == {
        "source": "A",
        "target": "B",
        "group": "g",
        "topic": "A.t",
        "partition": "0",
    }
    assert first.values == {
        "checkpoint-latency-ms": 300,
        "checkpoint-latency-ms-min": 100,
        "checkpoint-latency-ms-max": 300,
        "checkpoint-latency-ms-avg": 200,
    }
    assert second.values["checkpoint-latency-ms"] == 10
    metrics.remove()
    metrics.acknowledged("i", "A.t", 0, 990)
    assert checkpoint_samples(registry) == []


def test_rounds_follow_soon_after_one_another_at_first() -> None:
    pace, now, rounds = CheckpointSchedule(60.0), 0.0, []
    while now < 200:
        if pace.is_due(now):
            rounds.append(now)
            pace.done(now)
        now += pace.tick_s
    assert rounds == [0, 1, 3, 7, 15, 31, 63, 123, 183]


def test_rounds_stay_close_until_one_finds_something_but_not_for_ever() -> None:
    pace, now, rounds = CheckpointSchedule(8.0), 0.0, []
    while now < 30:
        if pace.is_due(now):
            rounds.append(now)
            pace.done(now, known=False)
        now += pace.tick_s
    assert rounds == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 23]


@pytest.mark.parametrize(("interval_s", "gap"), [(0.0, 0.1), (0.5, 0.5), (1.0, 1.0)])
def test_short_intervals_are_kept_from_the_beginning(interval_s: float, gap: float) -> None:
    pace = CheckpointSchedule(interval_s)
    assert pace.tick_s == gap
    pace.done(10.0)
    assert not pace.is_due(10.0 + gap * 0.4)
    assert pace.is_due(10.0 + gap)


# The connector.


@pytest.mark.parametrize("key", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_without_checkpoints_or_syncs_the_connector_is_refused(key: str) -> None:
    (problem,) = MirrorCheckpointConnector.validate({**PROPS, key: "false"})
    assert problem.key == key
    assert key in problem.message
    assert MirrorCheckpointConnector.validate({**PROPS, key: "false", "enabled": "false"}) == []
    assert MirrorCheckpointConnector.validate({**PROPS, key: "true"}) == []


def test_patterns_that_are_none_are_refused() -> None:
    (problem,) = MirrorCheckpointConnector.validate({**PROPS, "groups": "a("})
    assert problem.key == "groups"
    with pytest.raises(ConfigError, match="groups"):
        MirrorCheckpointConnector().start({**PROPS, "groups": "a("})


def test_a_connector_that_is_not_enabled_has_no_tasks() -> None:
    connector = MirrorCheckpointConnector()
    connector.start({**PROPS, "enabled": "false"})
    assert connector.task_configs(3) == []
    connector.stop()


def test_offsets_can_only_be_zero_or_deleted() -> None:
    partition: dict[str, OffsetValue] = {"group": "g", "topic": "A.t", "partition": 0}
    assert MirrorCheckpointConnector.alter_offsets(PROPS, [(partition, {"offset": 0})])
    assert MirrorCheckpointConnector.alter_offsets(PROPS, [(None, None), ({"x": 1}, None)])
    refused: list[AlteredOffset] = [
        (partition, {"offset": 1}),
        (partition, {"offset": "0"}),
        (partition, {}),
        ({**partition, "group": 1}, {"offset": 0}),
        ({**partition, "partition": -1}, {"offset": 0}),
        ({"topic": "A.t", "partition": 0}, {"offset": 0}),
        (None, {"offset": 0}),
    ]
    for altered in refused:
        with pytest.raises(ConnectError):
            MirrorCheckpointConnector.alter_offsets(PROPS, [altered])
