"""How a snapshot follows from the one before it and a Metadata response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kafka.protocol.metadata import MetadataResponse

from connect.clients.cluster.metadata import EMPTY_SNAPSHOT, ClusterSnapshot, advance

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)
Topic = MetadataResponse.MetadataResponseTopic
Partition = Topic.MetadataResponsePartition
Broker = MetadataResponse.MetadataResponseBroker


def topic(name: str, *leaders: tuple[int, int], topic_id: uuid.UUID = FIRST, error: int = 0) -> Any:
    """A topic whose partitions have these (leader, epoch)."""
    partitions = [
        Partition(
            error_code=0 if leader >= 0 else 5,
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch,
        )
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return Topic(error_code=error, name=name, topic_id=topic_id, partitions=partitions)


def after(
    previous: ClusterSnapshot,
    *topics: Any,
    watched: Sequence[str] = ("a", "b"),
    asked: Sequence[str] | None = None,
) -> ClusterSnapshot:
    response = MetadataResponse(
        brokers=[Broker(node_id=1, host="one", port=9092, rack="r1")],
        cluster_id="abc",
        controller_id=-1,
        topics=list(topics),
    )
    names = watched if asked is None else asked
    return advance(previous, response, frozenset(watched), frozenset(names))


def test_a_response_becomes_nodes_leaders_and_ids() -> None:
    snapshot = after(EMPTY_SNAPSHOT, topic("a", (1, 4), (2, 0)))
    assert snapshot.version == 1
    assert (snapshot.cluster_id, snapshot.controller_id) == ("abc", None)
    assert snapshot.nodes == {1: ("one", 9092)}
    assert snapshot.leaders == {("a", 0): (1, 4), ("a", 1): (2, 0)}
    assert snapshot.partition_counts == {"a": 2}
    assert snapshot.topic_ids == {"a": FIRST}


def test_a_partition_without_leader_is_absent_and_has_its_error() -> None:
    snapshot = after(EMPTY_SNAPSHOT, topic("a", (1, 4), (-1, 5)))
    assert snapshot.leaders == {("a", 0): (1, 4)}
    assert snapshot.partition_errors == {("a", 1): 5}
    assert snapshot.partition_counts == {"a": 2}


def test_a_topic_with_an_error_has_nothing_else() -> None:
    before = after(EMPTY_SNAPSHOT, topic("a", (1, 4)))
    snapshot = after(before, topic("a", error=3))
    assert snapshot.errors == {"a": 3}
    assert snapshot.leaders == {}
    assert snapshot.partition_counts == {}


def test_a_broker_that_lags_behind_cannot_bring_an_old_leader_back() -> None:
    before = after(EMPTY_SNAPSHOT, topic("a", (2, 7)))
    assert after(before, topic("a", (1, 6))).leaders == {("a", 0): (2, 7)}
    assert after(before, topic("a", (-1, 6))).partition_errors == {}
    assert after(before, topic("a", (1, 7))).leaders == {("a", 0): (1, 7)}


def test_a_created_again_topic_starts_with_its_own_epochs() -> None:
    before = after(EMPTY_SNAPSHOT, topic("a", (2, 7)))
    snapshot = after(before, topic("a", (1, 0), topic_id=SECOND))
    assert snapshot.leaders == {("a", 0): (1, 0)}
    assert snapshot.topic_ids == {"a": SECOND}


def test_a_broker_that_tells_no_epoch_is_believed() -> None:
    before = after(EMPTY_SNAPSHOT, topic("a", (2, 7)))
    assert after(before, topic("a", (1, -1))).leaders == {("a", 0): (1, -1)}


def test_topics_not_asked_for_stay_as_they_were() -> None:
    before = after(EMPTY_SNAPSHOT, topic("a", (1, 0)), topic("b", (-1, 0), topic_id=SECOND))
    snapshot = after(before, topic("a", (2, 1)), asked=["a"])
    assert snapshot.leaders == {("a", 0): (2, 1)}
    assert snapshot.partition_errors == {("b", 0): 5}
    assert snapshot.topic_ids == {"a": FIRST, "b": SECOND}
    assert snapshot.version == 2


def test_topics_no_longer_watched_are_dropped() -> None:
    before = after(EMPTY_SNAPSHOT, topic("a", (1, 0)), topic("b", (1, 0)))
    assert after(before, watched=["a"], asked=[]).partition_counts == {"a": 1}


def test_an_answer_about_a_topic_no_longer_watched_is_ignored() -> None:
    asked = ["a", "b"]
    snapshot = after(
        EMPTY_SNAPSHOT, topic("a", (1, 0)), topic("b", (1, 0)), watched=["a"], asked=asked
    )
    assert snapshot.leaders == {("a", 0): (1, 0)}
