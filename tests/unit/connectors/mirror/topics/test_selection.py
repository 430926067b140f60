"""Which topics are copied, what the target lacks, and who copies what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.errors import ConfigError
from connectors.mirror.filters import DefaultTopicFilter
from connectors.mirror.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    RenamingReplicationPolicy,
)
from connectors.mirror.topics.selection import (
    Growth,
    MissingTopic,
    Skip,
    SkipReason,
    TopicPartition,
    TopicSelector,
    assign_partitions,
    encode_partitions,
    partitions_of,
    plan_topics,
)


def selector(
    *,
    topics: str = ".*",
    identity: bool = False,
    heartbeats: bool = True,
    same_cluster: bool = False,
    separator: str = ".",
) -> TopicSelector:
    props = {"source.cluster.alias": "A", "replication.policy.separator": separator}
    policy = IdentityReplicationPolicy(props) if identity else DefaultReplicationPolicy(props)
    return TopicSelector(
        policy, DefaultTopicFilter({"topics": topics}), "A", "B", heartbeats, same_cluster
    )


def test_topics_are_copied_unless_internal_filtered_or_back_from_the_target() -> None:
    source = {"orders": 3, "A.t": 1, "B.t": 1, "C.B.t": 1, "mm2-configs.B.internal": 1, "x.y": 2}
    selection = selector(topics="orders, .*t, mm2.*").select(source)
    assert selection.copied == {"A.t": 1, "orders": 3}
    assert [(skip.topic, skip.reason) for skip in selection.skipped] == [
        ("B.t", SkipReason.CYCLE),
        ("C.B.t", SkipReason.CYCLE),
        ("mm2-configs.B.internal", SkipReason.INTERNAL),
        ("x.y", SkipReason.FILTER),
    ]


def test_heartbeats_are_copied_even_where_the_filter_says_no() -> None:
    assert selector(topics="orders").skip("heartbeats") is None
    assert selector(topics="orders").skip("C.heartbeats") is None
    refused = selector(topics="orders", heartbeats=False).skip("heartbeats")
    assert refused == Skip(
        "heartbeats", SkipReason.FILTER, "no element of topics matches it (orders)"
    )


def test_heartbeats_of_the_target_do_not_return() -> None:
    skip = selector(topics="").skip("B.heartbeats")
    assert skip is not None
    assert skip.reason is SkipReason.CYCLE


def test_one_cluster_under_two_aliases_does_not_grow_names_without_end() -> None:
    once = selector(same_cluster=True)
    assert once.skip("t") is None
    skip = once.skip("A.t")
    assert skip is not None
    assert skip.reason is SkipReason.CYCLE
    assert "another alias" in skip.detail
    assert selector().skip("A.t") is None


def test_two_topics_never_get_one_name() -> None:
    props = {"source.cluster.alias": "A", "replication.policy.prefix.remove": "eu."}
    split = replace(selector(), policy=RenamingReplicationPolicy(props))
    source = {"eu.orders": 1, "orders": 1, "eu.bills": 1}
    both = split.select(source)
    assert both.copied == {"eu.bills": 1}
    assert {(skip.topic, skip.reason) for skip in both.skipped} == {
        ("eu.orders", SkipReason.SAME_NAME),
        ("orders", SkipReason.SAME_NAME),
    }
    assert "would be named orders on B, as would orders: give" in both.skipped[0].detail
    assert split.select(source, {"orders"}).copied == {"eu.bills": 1, "orders": 1}


def test_a_topic_is_never_copied_onto_itself() -> None:
    with pytest.raises(ConfigError, match=r"A and B are the same cluster, .* topic t would be"):
        selector(identity=True, same_cluster=True).select({"t": 1})
    assert selector(identity=True).select({"t": 1}).copied == {"t": 1}


def test_the_plan_creates_and_grows_and_leaves_larger_topics_alone() -> None:
    plan = plan_topics(
        {"new": 4, "small": 3, "same": 2, "large": 1},
        {"A.small": 1, "A.same": 2, "A.large": 9, "new": 4},
        selector(),
    )
    assert plan.create == (MissingTopic("new", "A.new", 4),)
    assert plan.grow == (Growth("small", "A.small", 1, 3),)
    assert not plan_topics({"same": 2}, {"A.same": 2}, selector())


def test_copies_are_found_by_name_whatever_the_alias_holds() -> None:
    odd = TopicSelector(DefaultReplicationPolicy(), DefaultTopicFilter({}), "eu.west", "B")
    assert not plan_topics({"t": 1}, {"eu.west.t": 1}, odd)


def test_partitions_are_named_as_in_java() -> None:
    assert encode_partitions([("a-b", 0), ("t", 11)]) == "a-b-0,t-11"
    assert partitions_of({"b": 2, "a": 1}) == [("a", 0), ("b", 0), ("b", 1)]


def test_the_first_assignment_is_a_round_robin() -> None:
    partitions = partitions_of({"t": 5})
    assert assign_partitions(partitions, 2) == [
        [("t", 0), ("t", 2), ("t", 4)],
        [("t", 1), ("t", 3)],
    ]
    assert assign_partitions(partitions[:2], 8) == [[("t", 0)], [("t", 1)]]
    assert assign_partitions([], 8) == []


def test_a_new_topic_moves_no_partition() -> None:
    before = assign_partitions(partitions_of({"t": 4}), 2)
    after = assign_partitions(partitions_of({"a": 1, "t": 4}), 2, before)
    assert after == [[("t", 0), ("t", 2), ("a", 0)], [("t", 1), ("t", 3)]]


def test_a_deleted_topic_makes_room_for_others() -> None:
    before = [[("gone", 0), ("t", 0)], [("t", 1), ("u", 0)]]
    after = assign_partitions(partitions_of({"t": 2, "u": 1, "v": 1}), 2, before)
    assert after == [[("t", 0), ("v", 0)], [("t", 1), ("u", 0)]]


def test_no_task_is_left_without_partitions() -> None:
    before = [[("gone", 0)], [("t", 0), ("t", 1)]]
    assert assign_partitions(partitions_of({"t": 2}), 2, before) == [[("t", 1)], [("t", 0)]]


PARTITIONS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(0, 6)), unique=True, max_size=30
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(PARTITIONS, PARTITIONS, st.integers(1, 8))
def test_assignments_are_complete_sticky_and_never_empty(
    before: list[TopicPartition], after: list[TopicPartition], tasks: int
) -> None:
    old = assign_partitions(before, tasks)
    new = assign_partitions(after, tasks, old)
    assert sorted(partition for task in new for partition in task) == sorted(after)
    assert len(new) == min(tasks, len(after))
    assert all(new)
    if len(after) >= len(before) and set(before) <= set(after):
        for index, task in enumerate(old):
            assert set(task) <= set(new[index]), "a partition moved for no reason"
