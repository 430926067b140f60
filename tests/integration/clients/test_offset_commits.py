"""Offsets of many groups are set as Java's admin client sets them, metadata to the byte."""

from __future__ import annotations

import pytest

from connect.clients.errors import broker_code
from connect.clients.groups.consumer_groups import Committed, ConsumerGroups
from connect.clock import Deadline
from deploy.brokers import KafkaCluster
from tests.support.records.groups import commit, member
from tests.support.records.topics import create_topic, unique

TIMEOUT_S = 30.0
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_MEMBER_ID, OFFSET_METADATA_TOO_LARGE = 3, 25, 12


@pytest.fixture
def servers(target_cluster: KafkaCluster) -> str:
    return target_cluster.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    return create_topic(servers, "commits", partitions=3)


def deadline() -> Deadline:
    return Deadline(TIMEOUT_S)


def test_many_groups_are_set_and_what_is_not_named_stays(servers: str, topic: str) -> None:
    groups = ConsumerGroups({"bootstrap.servers": servers})
    names = [unique("many") for _ in range(300)]
    try:
        first = {(topic, 0): Committed(5, "note"), (topic, 2): Committed(0, "ü" * 9)}
        assert groups.commit(dict.fromkeys(names, first), deadline()) == {}
        more = {(topic, 1): Committed(7), (topic, 0): Committed(None)}
        assert groups.commit({names[0]: more}, deadline()) == {}
        found = groups.committed(names, deadline())
        assert found.pop(names[0]) == {**first, (topic, 1): Committed(7, "")}
        assert list(found.values()) == [first] * 299
    finally:
        groups.close()


def test_metadata_of_a_c_client_is_read_and_set_as_it_is(servers: str, topic: str) -> None:
    source, copy = unique("c"), unique("copy")
    commit(servers, source, {(topic, 0): 5}, "note")
    groups = ConsumerGroups({"bootstrap.servers": servers})
    try:
        found = groups.committed([source], deadline())[source]
        assert found == {(topic, 0): Committed(5, "note\0")}
        assert groups.commit({copy: found}, deadline()) == {}
        assert groups.committed([copy], deadline())[copy] == found
    finally:
        groups.close()


def test_each_group_that_is_refused_has_its_reason_and_holds_up_no_other(
    servers: str, topic: str
) -> None:
    runs, nowhere, wordy, fine = (unique(name) for name in ("runs", "nowhere", "wordy", "fine"))
    groups = ConsumerGroups({"bootstrap.servers": servers})
    try:
        with member(servers, runs, topic):
            refused = groups.commit(
                {
                    runs: {(topic, 0): Committed(1)},
                    nowhere: {(topic, 0): Committed(2), ("no-such-topic", 0): Committed(2)},
                    wordy: {(topic, 0): Committed(3, "x" * 5000)},
                    fine: {(topic, 0): Committed(4)},
                },
                deadline(),
            )
        assert {group: broker_code(error) for group, error in refused.items()} == {
            runs: UNKNOWN_MEMBER_ID,
            nowhere: UNKNOWN_TOPIC_OR_PARTITION,
            wordy: OFFSET_METADATA_TOO_LARGE,
        }
        assert "no-such-topic-0" in str(refused[nowhere])
        assert groups.committed([runs, nowhere, fine], deadline()) == {
            runs: {},
            nowhere: {(topic, 0): Committed(2)},
            fine: {(topic, 0): Committed(4)},
        }
    finally:
        groups.close()


def test_a_cluster_that_is_gone_is_every_groups_reason() -> None:
    groups = ConsumerGroups({"bootstrap.servers": "127.0.0.1:1"})
    try:
        refused = groups.commit({"g": {("t", 0): Committed(1)}}, Deadline(1.0))
        assert list(refused) == ["g"]
        assert refused["g"].retriable
    finally:
        groups.close()
