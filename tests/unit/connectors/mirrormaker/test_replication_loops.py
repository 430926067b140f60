"""Circles of flows that keep topic names."""

from __future__ import annotations

from connectors.mirrormaker.replication_loops import Loop, find_loops

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def flow(source: str, target: str, **props: str) -> tuple[tuple[str, str], dict[str, str]]:
    given = {"replication.policy.class": IDENTITY, "source.cluster.alias": source, **props}
    return (source, target), given


def test_both_directions_alike_are_a_certain_loop() -> None:
    assert find_loops(dict([flow("A", "B"), flow("B", "A")])) == [Loop("A", "B", certain=True)]


def test_both_directions_with_other_topics_may_be_a_loop() -> None:
    flows = dict([flow("A", "B", topics="a.*"), flow("B", "A", topics="b.*")])
    assert find_loops(flows) == [Loop("A", "B", certain=False)]


def test_a_circle_of_three_is_found_once() -> None:
    flows = dict([flow("B", "C"), flow("C", "A"), flow("A", "B")])
    assert find_loops(flows) == [Loop("A", "B", certain=True)]


def test_names_that_tell_their_origin_make_no_loop() -> None:
    default = {
        "replication.policy.class": "connectors.mirror.replication_policy.DefaultReplicationPolicy"
    }
    assert find_loops(dict([flow("A", "B", **default), flow("B", "A", **default)])) == []
    assert find_loops(dict([flow("A", "B"), flow("B", "A", **default)])) == []


def test_a_chain_is_no_loop() -> None:
    assert find_loops(dict([flow("A", "B"), flow("B", "C"), flow("A", "C")])) == []
