"""The declared keys of standalone and distributed workers."""

from __future__ import annotations

import pytest

from connect.config.worker import WorkerConfig
from connect.config.worker_keys import (
    DISTRIBUTED_CONFIG_DEF,
    STANDALONE_CONFIG_DEF,
    WORKER_CONFIG_DEF,
)
from connect.errors import ConfigError

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PROPS = {
    "bootstrap.servers": "b:1",
    "key.converter": BYTES,
    "value.converter": BYTES,
    "offset.storage.topic": "offsets",
}


def test_defaults_are_kafka_4_3_1s() -> None:
    found = {
        name: DISTRIBUTED_CONFIG_DEF.keys[name].default
        for name in (
            "scheduled.rebalance.max.delay.ms",
            "session.timeout.ms",
            "rebalance.timeout.ms",
            "heartbeat.interval.ms",
            "connect.protocol",
            "metadata.recovery.strategy",
            "offset.storage.partitions",
            "status.storage.partitions",
            "inter.worker.key.ttl.ms",
            "request.timeout.ms",
        )
    }
    assert found == {
        "scheduled.rebalance.max.delay.ms": 300_000,
        "session.timeout.ms": 10_000,
        "rebalance.timeout.ms": 60_000,
        "heartbeat.interval.ms": 3000,
        "connect.protocol": "sessioned",
        "metadata.recovery.strategy": "rebootstrap",
        "offset.storage.partitions": 25,
        "status.storage.partitions": 5,
        "inter.worker.key.ttl.ms": 3_600_000,
        "request.timeout.ms": 40_000,
    }


def test_only_distributed_workers_have_a_group() -> None:
    group = {"group.id", "connect.protocol", "status.storage.topic", "config.storage.topic"}
    assert group <= set(DISTRIBUTED_CONFIG_DEF.names)
    assert not group & set(STANDALONE_CONFIG_DEF.names)
    assert set(WORKER_CONFIG_DEF.names) <= set(STANDALONE_CONFIG_DEF.names)


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"offset.storage.partitions": "0"}, "Value must be at least 1"),
        ({"offset.storage.topic": " "}, "configuration offset.storage.topic: String must be non-e"),
        ({"bootstrap.servers": ""}, "Configuration 'bootstrap.servers' must not be empty"),
        ({"exactly.once.source.support": "yes"}, "must be one of (case insensitive): disabled"),
        ({"scheduled.rebalance.max.delay.ms": "-1"}, "Value must be at least 0"),
    ],
)
def test_wrong_values_are_refused_in_javas_words(props: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerConfig.from_properties(PROPS | props)
    assert message in str(caught.value)


def test_minus_one_leaves_partitions_to_the_broker() -> None:
    props = PROPS | {"offset.storage.partitions": "-1", "offset.storage.replication.factor": "-1"}
    config = WorkerConfig.from_properties(props)
    assert config.offset_storage_partitions == -1
    assert config.offset_storage_replication_factor == -1
