"""What the policies of Kafka 4.3.1 answer, name by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.mirror.config.permissions import not_permitted
from connectors.mirror.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    RenamingReplicationPolicy,
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


PREFIX, SUFFIX = "replication.policy.prefix", "replication.policy.suffix"
TAKEN, TAKEN_END = "replication.policy.prefix.remove", "replication.policy.suffix.remove"
MAPPING = "replication.policy.mapping.file"


def renaming(**props: str) -> RenamingReplicationPolicy:
    return RenamingReplicationPolicy({"source.cluster.alias": "A", **props})


@pytest.mark.parametrize(
    ("props", "topic", "remote"),
    [
        ({PREFIX: "eu."}, "orders", "eu.orders"),
        ({SUFFIX: ".replica"}, "orders", "orders.replica"),
        ({TAKEN: "tenant1."}, "tenant1.orders", "orders"),
        ({TAKEN: "tenant1."}, "orders", "orders"),
        ({TAKEN_END: "-v1", SUFFIX: "-v2"}, "orders-v1", "orders-v2"),
        ({TAKEN: "old.", PREFIX: "new."}, "old.orders", "new.orders"),
        ({TAKEN: "old.", PREFIX: "new."}, "orders", "new.orders"),
        ({PREFIX: "eu."}, "A.heartbeats", "A.A.heartbeats"),
        # Nothing would be left of it.
        ({TAKEN: "orders"}, "orders", "orders"),
    ],
)
def test_topics_are_renamed_by_configuration(
    props: dict[str, str], topic: str, remote: str
) -> None:
    policy = renaming(**props)
    assert policy.format_remote_topic("A", topic) == remote


def test_a_renamed_topic_shows_its_source_and_another_does_not() -> None:
    policy = renaming(**{TAKEN: "old.", PREFIX: "new."})
    assert (policy.topic_source("new.orders"), policy.upstream_topic("new.orders")) == (
        "A",
        "old.orders",
    )
    assert policy.topic_source("orders") is None
    assert policy.upstream_topic("orders") is None
    assert policy.topic_source("new.") is None
    assert policy.topic_source("B.heartbeats") == "B"
    assert not is_cycle(policy, "new.orders", "B")


def test_a_topic_with_a_prefix_that_is_taken_away_is_no_copy() -> None:
    policy = renaming(**{TAKEN: "eu.", TAKEN_END: "-v1"})
    assert policy.upstream_topic("orders") == "eu.orders-v1"
    assert policy.upstream_topic("eu.orders-v1") is None
    assert policy.original_topic("orders") == "eu.orders-v1"


class Growing(IdentityReplicationPolicy):
    def upstream_topic(self, topic: str) -> str:
        return f"x{topic}"


def test_a_policy_that_never_ends_cannot_hang_us() -> None:
    policy = Growing({"source.cluster.alias": "A"})
    assert len(policy.original_topic("t")) < 300
    assert not is_cycle(policy, "t", "B")


def test_a_file_names_single_topics(tmp_path: Path) -> None:
    file = tmp_path / "names.properties"
    file.write_text("# ours = theirs\norders = sales.orders.v2\nbills: sales.bills\n")
    policy = renaming(**{MAPPING: str(file), PREFIX: "eu."})
    names = {topic: policy.format_remote_topic("A", topic) for topic in ("orders", "bills", "x")}
    assert names == {"orders": "sales.orders.v2", "bills": "sales.bills", "x": "eu.x"}
    assert {policy.upstream_topic(remote) for remote in names.values()} == names.keys()
    assert policy.upstream_topic("eu.orders") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("orders = a/b\n", "line 1 has no legal topic name"),
        ("orders\n", "line 1 has no legal topic name"),
        (
            "orders = x\nbills = x\n",
            "line 2 names a topic of the target that an earlier line has named",
        ),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_of_names_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "names.properties"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=said) as failed:
        renaming(**{MAPPING: str(file)})
    assert failed.value.key == MAPPING


def test_a_part_of_a_name_has_only_legal_characters() -> None:
    with pytest.raises(ConfigError, match="topic names have only letters") as failed:
        renaming(**{PREFIX: "eu/"})
    assert failed.value.key == PREFIX


def test_connectors_read_only_the_file_of_names_of_their_worker() -> None:
    config = {MAPPING: "/etc/passwd"}
    assert [each.key for each in not_permitted(config, {})] == [MAPPING]
    assert not not_permitted(config, config)


def test_a_policy_is_named_by_module_and_class_or_by_its_short_name() -> None:
    key = "replication.policy.class"
    assert type(replication_policy({key: f"{__name__}:FlipFlop"})).__name__ == "FlipFlop"
    found = replication_policy({key: "RenamingReplicationPolicy", PREFIX: "eu."})
    assert found.format_remote_topic("A", "t") == "eu.t"
