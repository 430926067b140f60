"""The mirror connectors' keys: names, types and defaults of Kafka 4.3.1, and our own."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from connect.config.definition import ConfigDef
from connect.errors import ConfigError
from connectors.mirror.config.base import BASE_CONFIG_DEF
from connectors.mirror.config.checkpoint import (
    CHECKPOINT_CONFIG_DEF,
    CheckpointConfig,
    CheckpointTaskConfig,
)
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF, HeartbeatConfig
from connectors.mirror.config.source import SOURCE_CONFIG_DEF, SourceConfig, SourceTaskConfig

FLOW = {
    "name": "MirrorSourceConnector",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
}
SHARED = {
    "name": ("STRING", "REQUIRED"),
    "tasks.max": ("INT", 1),
    "tasks.max.enforce": ("BOOLEAN", True),
    "enabled": ("BOOLEAN", True),
    "source.cluster.alias": ("STRING", "REQUIRED"),
    "target.cluster.alias": ("STRING", "target"),
    "admin.timeout.ms": ("LONG", 60000),
    "replication.policy.separator": ("STRING", "."),
    "replication.policy.internal.topic.separator.enabled": ("BOOLEAN", True),
    "security.protocol": ("STRING", "PLAINTEXT"),
    "sasl.mechanism": ("STRING", "GSSAPI"),
    "errors.retry.delay.max.ms": ("LONG", 60000),
    "config.providers": ("LIST", ()),
}
SOURCE = {
    "topics": ("LIST", (".*",)),
    "topics.exclude": ("LIST", (r"mm2.*\.internal", r".*\.replica", "__.*")),
    "consumer.poll.timeout.ms": ("LONG", 1000),
    "refresh.topics.enabled": ("BOOLEAN", True),
    "refresh.topics.interval.seconds": ("LONG", 600),
    "sync.topic.configs.enabled": ("BOOLEAN", True),
    "sync.topic.configs.interval.seconds": ("LONG", 600),
    "sync.topic.acls.enabled": ("BOOLEAN", True),
    "sync.topic.acls.interval.seconds": ("LONG", 600),
    "replication.factor": ("INT", 2),
    "offset-syncs.topic.replication.factor": ("SHORT", 3),
    "offset-syncs.topic.location": ("STRING", "source"),
    "offset.lag.max": ("LONG", 100),
    "emit.offset-syncs.enabled": ("BOOLEAN", True),
    "heartbeats.replication.enabled": ("BOOLEAN", True),
    "metric.names.formats": ("LIST", ("legacy",)),
    "mirror.copy.buffer.bytes": ("LONG", 25165824),
    "mirror.copy.merge.batch.bytes": ("INT", 262144),
    "mirror.offset.map.enabled": ("BOOLEAN", True),
    "offset-map.topic.replication.factor": ("SHORT", None),
}
CHECKPOINT = {
    "groups": ("LIST", (".*",)),
    "groups.exclude": ("LIST", ("console-consumer-.*", "connect-.*", "__.*")),
    "refresh.groups.enabled": ("BOOLEAN", True),
    "refresh.groups.interval.seconds": ("LONG", 600),
    "emit.checkpoints.enabled": ("BOOLEAN", True),
    "emit.checkpoints.interval.seconds": ("LONG", 60),
    "sync.group.offsets.enabled": ("BOOLEAN", False),
    "sync.group.offsets.interval.seconds": ("LONG", 60),
    "checkpoints.topic.replication.factor": ("SHORT", 3),
    "offset-syncs.topic.location": ("STRING", "source"),
    "consumer.poll.timeout.ms": ("LONG", 1000),
}
HEARTBEAT = {
    "emit.heartbeats.enabled": ("BOOLEAN", True),
    "emit.heartbeats.interval.seconds": ("LONG", 1),
    "heartbeats.topic.replication.factor": ("SHORT", 3),
}


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        (BASE_CONFIG_DEF, SHARED),
        (SOURCE_CONFIG_DEF, SHARED | SOURCE),
        (CHECKPOINT_CONFIG_DEF, SHARED | CHECKPOINT),
        (HEARTBEAT_CONFIG_DEF, SHARED | HEARTBEAT),
    ],
)
def test_keys_have_mirror_maker_2s_types_and_defaults(
    definition: Any, expected: dict[str, tuple[str, object]]
) -> None:
    found = {
        name: (
            definition.keys[name].type.value,
            "REQUIRED" if definition.keys[name].required else definition.keys[name].default,
        )
        for name in expected
    }
    assert found == expected


def test_the_number_of_keys_is_kafka_4_3_1s() -> None:
    renaming = tuple(f"replication.policy.{part}" for part in ("prefix", "suffix", "mapping"))
    ours = ("mirror.", "offset-map.", *renaming)
    security = 65

    def javas(definition: ConfigDef) -> int:
        found = [name for name in definition.names if not name.startswith(ours)]
        return len(found) - security

    assert javas(SOURCE_CONFIG_DEF) == 49 - 1
    assert javas(CHECKPOINT_CONFIG_DEF) == 44 - 1
    assert javas(HEARTBEAT_CONFIG_DEF) == 33 - 1


@pytest.mark.parametrize("definition", [SOURCE_CONFIG_DEF, CHECKPOINT_CONFIG_DEF])
def test_every_key_is_documented(definition: Any) -> None:
    assert [key.name for key in definition if not key.doc.strip()] == []


def test_values_come_typed() -> None:
    config = SourceConfig.from_properties(
        FLOW
        | {
            "topics": " a , b.* ",
            "refresh.topics.enabled": "false",
            "sync.topic.acls.interval.seconds": "7",
            "replication.factor": "-1",
        }
    )
    assert config.refresh_topics_interval_s is None
    assert config.sync_topic_acls_interval_s == 7.0
    assert config.sync_topic_configs_interval_s == 600.0
    assert config.replication_factor == -1
    assert config.originals["topics"] == " a , b.* "


def test_the_offset_maps_replication_factor_follows_the_offset_syncs() -> None:
    key = "offset-syncs.topic.replication.factor"
    assert SourceConfig.from_properties(FLOW | {key: "1"}).offset_map_topic_replication_factor == 1
    both = FLOW | {key: "1", "offset-map.topic.replication.factor": "2"}
    assert SourceConfig.from_properties(both).offset_map_topic_replication_factor == 2


def test_a_negative_interval_switches_off_as_in_java(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = SourceConfig.from_properties(FLOW | {"refresh.topics.interval.seconds": "-1"})
    assert config.refresh_topics_interval_s is None
    assert "use refresh.topics.enabled=false instead" in caplog.text


def test_emitters_may_emit_without_pause_and_others_not() -> None:
    heartbeat = HeartbeatConfig.from_properties(FLOW | {"emit.heartbeats.interval.seconds": "0"})
    assert heartbeat.emit_heartbeats_interval_s == 0.0
    with pytest.raises(ConfigError, match=r"refresh\.topics\.interval\.seconds.*at least 1"):
        SourceConfig.from_properties(FLOW | {"refresh.topics.interval.seconds": "0"})


@pytest.mark.parametrize(
    ("props", "message"),
    [
        (
            {"tasks.max": "0"},
            "Invalid value 0 for configuration tasks.max: Value must be at least 1",
        ),
        ({"topics": "a,,b"}, "Configuration 'topics' values must not be empty."),
        (
            {"offset-syncs.topic.location": "Source"},
            "Invalid value Source for configuration offset-syncs.topic.location: "
            "String must be one of: source, target",
        ),
        ({"metric.names.formats": ""}, "Configuration 'metric.names.formats' must not be empty"),
        ({"replication.factor": "two"}, "Not a number of type INT"),
        (
            {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.replication.factor": "1"},
            "offset-syncs.topic.replication.factor would have no effect",
        ),
        ({"name": "a\nb"}, "may not contain control sequences"),
    ],
)
def test_wrong_values_are_refused(props: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceConfig.from_properties(FLOW | props)
    assert message in str(caught.value)


@pytest.mark.parametrize("key", ["emit.checkpoints.enabled", "emit.offset-syncs.enabled"])
def test_checkpoints_need_checkpoints_and_offset_syncs(key: str) -> None:
    with pytest.raises(ConfigError, match="the checkpoint connector requires it"):
        CheckpointConfig.from_properties(FLOW | {key: "false"})
    CheckpointConfig.from_properties(FLOW | {key: "false", "enabled": "false"})


def test_a_source_tasks_partitions_split_at_the_last_dash() -> None:
    task = SourceTaskConfig.from_properties(
        FLOW | {"task.assigned.partitions": "a-b-3,c-0", "task.index": "2"}
    )
    assert task.task_assigned_partitions == (("a-b", 3), ("c", 0))
    assert task.task_index == "2"
    assert task.connector.source_cluster_alias == "A"


@pytest.mark.parametrize("partitions", ["", "a", "-1", "a-", "a-x"])
def test_a_task_without_proper_partitions_is_refused(partitions: str) -> None:
    with pytest.raises(ConfigError, match=r"task\.assigned\.partitions"):
        SourceTaskConfig.from_properties(FLOW | {"task.assigned.partitions": partitions})


def test_a_checkpoint_task_has_groups() -> None:
    task = CheckpointTaskConfig.from_properties(FLOW | {"task.assigned.groups": "g1,g2"})
    assert task.task_assigned_groups == ("g1", "g2")
    with pytest.raises(ConfigError, match=r'"task\.assigned\.groups"'):
        CheckpointTaskConfig.from_properties(FLOW)
