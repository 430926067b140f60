"""What the policies of Kafka 4.3.1 answer, name by name."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from connectors.mirror.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    is_cycle,
    replication_policy,
)

JAVA = "org.apache.kafka.connect.mirror."

# topic, topicSource, upstreamTopic, originalTopic, heartbeats?, internal?
DEFAULT_TABLE = [
    ("t", None, None, "t", False, False),
    ("A.t", "A", "t", "t", False, False),
    ("B.A.t", "B", "A.t", "t", False, False),
    (".t", "", "t", "t", False, True),
    ("t.", None, None, "t.", False, False),
    (".", None, None, ".", False, True),
    ("..", None, None, "..", False, True),
    ("a..b", "a", ".b", "b", False, False),
    ("heartbeats", None, None, "heartbeats", True, False),
    ("A.heartbeats", "A", "heartbeats", "heartbeats", True, False),
    ("B.A.heartbeats", "B", "A.heartbeats", "heartbeats", True, False),
    ("my-heartbeats", None, None, "my-heartbeats", False, False),
    ("heartbeats.x", "heartbeats", "x", "x", False, False),
    ("A.checkpoints.internal", "A", "checkpoints.internal", "internal", False, True),
    ("checkpoints.internal", "checkpoints", "internal", "internal", False, False),
    ("mm2-offset-syncs.B.internal", "mm2-offset-syncs", "B.internal", "internal", False, True),
    ("us-west.mm2-offsets.A.internal", "us-west", "mm2-offsets.A.internal", "internal", False,
     False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original", "heartbeats", "internal"), DEFAULT_TABLE
)
def test_default_policy_reads_names_as_java(
    topic: str,
    source: str | None,
    upstream: str | None,
    original: str,
    heartbeats: bool,
    internal: bool,
) -> None:
    policy = DefaultReplicationPolicy()
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream
    assert policy.original_topic(topic) == original
    assert policy.is_heartbeats_topic(topic) is heartbeats
    assert policy.is_internal_topic(topic) is internal


def test_default_policy_names_topics() -> None:
    policy = DefaultReplicationPolicy({"source.cluster.alias": "A"})
    assert policy.format_remote_topic("A", "t") == "A.t"
    assert policy.heartbeats_topic() == "heartbeats"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.offset_map_topic("B") == "mm2-offset-map.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"


def test_the_separator_shapes_names_and_internal_topics_alike() -> None:
    policy = DefaultReplicationPolicy({"replication.policy.separator": "_"})
    assert policy.format_remote_topic("A", "t") == "A_t"
    assert policy.topic_source("A_t.x") == "A"
    assert policy.topic_source("A.t") is None
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert policy.checkpoints_topic("A") == "A_checkpoints_internal"
    assert policy.heartbeats_topic() == "heartbeats"
    assert policy.is_internal_topic("mm2-offset-syncs_B_internal")
    assert policy.is_internal_topic("A_checkpoints_internal")
    assert not policy.is_internal_topic("mm2-offsets.A.internal")


def test_internal_topics_can_keep_the_dot() -> None:
    props = {
        "replication.policy.separator": "_",
        "replication.policy.internal.topic.separator.enabled": "False",
    }
    policy = DefaultReplicationPolicy(props)
    assert policy.format_remote_topic("A", "t") == "A_t"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert policy.is_checkpoints_topic("A.checkpoints.internal")


def test_the_flag_is_read_only_beside_the_separator_and_only_true_is_true() -> None:
    key = "replication.policy.internal.topic.separator.enabled"
    odd = {"replication.policy.separator": "_", key: "yes"}
    assert DefaultReplicationPolicy(odd).offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    upper = {"replication.policy.separator": "_", key: "TRUE"}
    assert DefaultReplicationPolicy(upper).offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"


def test_a_long_and_an_empty_separator() -> None:
    long = DefaultReplicationPolicy({"replication.policy.separator": "-->"})
    assert long.topic_source("A-->t") == "A"
    assert long.upstream_topic("A-->B-->t") == "B-->t"
    empty = DefaultReplicationPolicy({"replication.policy.separator": ""})
    assert empty.topic_source("abc") == "a"
    assert empty.upstream_topic("abc") == "bc"
    assert empty.topic_source("a") is None


def test_user_topics_that_merely_end_like_internal_ones_are_mirrored() -> None:
    policy = DefaultReplicationPolicy()
    assert not policy.is_internal_topic("foo.internal")
    assert not policy.is_internal_topic("foo-internal")
    assert policy.is_internal_topic("mm2-configs.A.internal")
    assert policy.is_internal_topic("__consumer_offsets")


IDENTITY_TABLE = [
    # topic, remote, topicSource, upstreamTopic, heartbeats?
    ("t", "t", "A", "t", False),
    ("B.t", "B.t", "A", "B.t", False),
    ("heartbeats", "A.heartbeats", None, None, True),
    ("A.heartbeats", "A.A.heartbeats", "A", "heartbeats", True),
    ("my-heartbeats", "A.my-heartbeats", None, None, False),
]


@pytest.mark.parametrize(("topic", "remote", "source", "upstream", "heartbeats"), IDENTITY_TABLE)
def test_identity_policy_keeps_names_but_for_heartbeats(
    topic: str, remote: str, source: str | None, upstream: str | None, heartbeats: bool
) -> None:
    policy = IdentityReplicationPolicy({"source.cluster.alias": "A"})
    assert policy.format_remote_topic("A", topic) == remote
    assert policy.topic_source(topic) == source
    assert policy.upstream_topic(topic) == upstream
    assert policy.is_heartbeats_topic(topic) is heartbeats


def test_identity_policy_without_an_alias_knows_no_source() -> None:
    policy = IdentityReplicationPolicy({})
    assert policy.topic_source("t") is None
    assert policy.upstream_topic("t") == "t"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"


@pytest.mark.parametrize(
    ("topic", "cycle"),
    [("B.t", True), ("B.A.t", True), ("A.B.t", True), ("t", False), ("A.t", False)],
)
def test_the_whole_ancestry_is_checked_for_cycles(topic: str, cycle: bool) -> None:
    assert is_cycle(DefaultReplicationPolicy(), topic, "B") is cycle


def test_identity_sees_cycles_of_heartbeats_only() -> None:
    policy = IdentityReplicationPolicy({"source.cluster.alias": "A"})
    assert is_cycle(policy, "B.heartbeats", "B")
    assert not is_cycle(policy, "B.t", "B")
    assert is_cycle(policy, "t", "A")


class FlipFlop(ReplicationPolicy):
    """A policy whose ancestry goes round in circles."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic

    def topic_source(self, topic: str) -> str | None:
        return "X"

    def upstream_topic(self, topic: str) -> str | None:
        return {"a": "b", "b": "a"}.get(topic)


def test_a_policy_that_goes_round_in_circles_cannot_hang_us() -> None:
    assert FlipFlop().original_topic("a") == "b"
    assert not is_cycle(FlipFlop(), "a", "B")
    assert is_cycle(FlipFlop(), "a", "X")


def test_policies_are_found_by_javas_names_and_by_python_paths() -> None:
    key = "replication.policy.class"
    assert type(replication_policy({})) is DefaultReplicationPolicy
    identity = replication_policy({key: f"{JAVA}IdentityReplicationPolicy"})
    assert type(identity) is IdentityReplicationPolicy
    assert type(replication_policy({key: f"{__name__}.FlipFlop"})).__name__ == "FlipFlop"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "NoSuch",
        "com.acme.Policy",
        "connectors.mirror.replication_policy.Nothing",
        "pathlib.Path",
    ],
)
def test_an_unknown_policy_is_refused_with_key_value_and_remedy(name: str) -> None:
    with pytest.raises(ConfigError) as failed:
        replication_policy({"replication.policy.class": name})
    assert "replication.policy.class" in str(failed.value)
    assert f"{JAVA}IdentityReplicationPolicy" in str(failed.value)
    assert failed.value.key == "replication.policy.class"
    assert failed.value.value == name
